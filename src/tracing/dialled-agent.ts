/** An http.Agent that opens no socket itself: each is dialled as all others are, with a permit, to an address. */
import { Agent, type AgentOptions } from 'node:http'
import type { Duplex } from 'node:stream'
import type { CancelSignal } from '../exchange.js'

/** @returns a connected socket, with TLS on it where the scheme says so */
export type OpenSocket = (signal: CancelSignal) => Promise<Duplex>

type Created = (error: Error | null, socket?: Duplex) => void

export class DialledAgent extends Agent {
  /** What node:http compares the URL's scheme with. */
  readonly protocol: string
  readonly #open: OpenSocket
  readonly #controller = new AbortController()
  readonly #sockets = new Set<Duplex>()

  /** Each request has a connection of its own, so that none that has died in between is used. */
  constructor(scheme: 'http' | 'https', open: OpenSocket, options: AgentOptions = {}) {
    super({ ...options, keepAlive: false })
    this.protocol = `${scheme}:`
    this.#open = open
  }

  override createConnection(_options: unknown, created: Created): undefined {
    this.#open(this.#controller.signal).then(
      socket => {
        this.#sockets.add(socket)
        socket.once('close', () => this.#sockets.delete(socket))
        created(null, socket)
      },
      (error: unknown) => created(systemError(error)),
    )
    return undefined
  }

  /** Ends what is open, and what is being dialled. */
  close(): void {
    this.#controller.abort()
    for (const socket of this.#sockets) socket.destroy(new Error('closed'))
    this.destroy()
  }
}

/** The error of the system behind one of ours: whoever retries goes by its code. */
function systemError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  return error.cause instanceof Error ? error.cause : error
}
