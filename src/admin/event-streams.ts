/**
 * The event streams of the status page (server-sent events, HTML §9.2). A watcher gets the whole status first, then an update
 * every second. While there is no watcher, no status is collected.
 */
import type { ServerResponse } from 'node:http'
import { withLastSeconds } from './describe-status.js'
import type { StatusDocument } from './status-document.js'

const TICK_MS = 1000
/** Seconds of traffic in an update: a watcher that was too slow for one update gets the missed seconds with the next. */
const TAIL_SECONDS = 10
export const MAX_WATCHERS = 32

export class EventStreams {
  readonly #status: () => Promise<StatusDocument>
  readonly #watchers = new Set<ServerResponse>()
  #timer: NodeJS.Timeout | undefined
  #busy = false

  constructor(status: () => Promise<StatusDocument>) {
    this.#status = status
  }

  get isFull(): boolean {
    return this.#watchers.size >= MAX_WATCHERS
  }

  /** @param response its head has not been sent; it gets events until it is closed */
  async add(response: ServerResponse, headers: Record<string, string>): Promise<void> {
    this.#watchers.add(response)
    response.once('close', () => this.#remove(response))
    response.writeHead(200, { ...headers, 'Content-Type': 'text/event-stream' })
    // The browser reconnects after this many milliseconds.
    response.write('retry: 2000\n\n')
    this.#timer ??= setInterval(() => void this.#tick(), TICK_MS)
    const document = await this.#get()
    if (document !== undefined) send(response, document)
  }

  close(): void {
    for (const response of this.#watchers) response.destroy()
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #remove(response: ServerResponse): void {
    this.#watchers.delete(response)
    if (this.#watchers.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #tick(): Promise<void> {
    if (this.#busy) return
    this.#busy = true
    const document = await this.#get()
    this.#busy = false
    if (document === undefined) return
    const changed = withLastSeconds(document, TAIL_SECONDS)
    for (const response of this.#watchers) if (!response.writableNeedDrain) send(response, changed)
  }

  /** @returns undefined when the status is not available; the next update may have it */
  async #get(): Promise<StatusDocument | undefined> {
    try {
      return await this.#status()
    } catch {
      return undefined
    }
  }
}

/** The JSON has no line breaks, which would end the event. */
function send(response: ServerResponse, document: StatusDocument): void {
  if (response.writable) response.write(`event: status\ndata: ${JSON.stringify(document)}\n\n`)
}
