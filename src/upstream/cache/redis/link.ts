/**
 * One connection to a Redis server, which is kept: when it fails, it is opened again in the background.
 *
 * The client's own reconnecting is not used. It queues commands meanwhile, and neither its pauses nor a connection that is
 * being opened end when it is destroyed; here one signal ends whatever there is.
 */
import { createRequire } from 'node:module'
import type { LookupFunction } from 'node:net'
import type { RedisUrl } from '../../../config/redis-url.js'

/** What Redis answers: text for a status, bytes for a value. */
export type Reply = string | number | null | Buffer | readonly Reply[] | Error
export type Command = readonly (string | Buffer)[]

/** A server that cannot be used for now. */
export class NotConnected extends Error {}

export interface ServerOptions {
  readonly url: RedisUrl
  /** Authorities for `rediss:`, PEM; those of the system where absent. */
  readonly ca: string | undefined
  /** In place of getaddrinfo. */
  readonly lookup: LookupFunction | undefined
}

export interface LinkEvents {
  /** The connection is there, and not up before this has ended; it fails when this does. */
  prepare(link: RedisLink): Promise<void>
  up(): void
  down(error: unknown): void
}

/** For all that comes before the first command: the name, TCP, TLS, credentials. */
const CONNECT_MS = 5_000
/** A connection on which nothing is answered for that long is closed. */
const SILENT_MS = 10_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
/** More commands that wait for their answers than that mean that it cannot keep up. */
const MOST_UNANSWERED = 20_000

/** As much of the client as is used. */
interface Client {
  on(name: 'error', listener: (error: unknown) => void): unknown
  connect(): Promise<unknown>
  sendCommand(args: Command): Promise<unknown>
  destroy(): void
}

export class RedisLink {
  readonly #server: ServerOptions
  readonly #events: LinkEvents
  readonly #closing = new AbortController()
  readonly #ended: Promise<void>
  #client: Client | undefined
  #unanswered = 0
  #up = false
  /** Closes the connection there is. */
  #drop: (error: unknown) => void = () => {}

  constructor(server: ServerOptions, events: LinkEvents) {
    this.#server = server
    this.#events = events
    this.#ended = this.#keep()
  }

  /** Whether it answers in time, as far as is known. */
  get up(): boolean {
    return this.#up
  }

  /**
   * One that is slow takes commands, too.
   * @throws NotConnected, or what the server answered
   */
  async send(...command: Command): Promise<Reply> {
    const client = this.#ready(1)
    this.#unanswered++
    try {
      return (await client.sendCommand(command)) as Reply
    } catch (error) {
      // The end of a connection is reported once, and not by all that waited for it.
      throw client === this.#client ? error : new NotConnected('the connection was closed')
    } finally {
      this.#unanswered--
    }
  }

  /**
   * MULTI and EXEC. The commands are put on the wire together.
   * @throws as `send` does, also when one of the commands failed
   */
  async transaction(commands: readonly Command[]): Promise<readonly Reply[]> {
    // All or nothing: a MULTI without its EXEC would make part of it whatever follows on the connection.
    this.#ready(commands.length + 2)
    const queued = [['MULTI'], ...commands].map(command => this.send(...command))
    const executed = this.send('EXEC')
    const [answered] = await Promise.allSettled([executed, ...queued])
    if (answered.status === 'rejected') {
      const refused = (await Promise.allSettled(queued)).find(each => each.status === 'rejected')
      throw refused?.reason ?? answered.reason
    }
    const replies = answered.value
    if (!Array.isArray(replies)) throw new Error('an answer to EXEC that is no list')
    const error = replies.find(reply => reply instanceof Error)
    if (error !== undefined) throw error
    return replies
  }

  #ready(commands: number): Client {
    if (this.#client === undefined) throw new NotConnected('not connected')
    if (this.#unanswered + commands > MOST_UNANSWERED)
      throw new NotConnected('too many commands wait for an answer')
    return this.#client
  }

  /** It did not answer in time: it is not up until it has answered all that it was asked. */
  slow(error: Error): void {
    if (!this.#up) return
    this.#up = false
    this.#events.down(error)
    const client = this.#client
    const silent = setTimeout(() => this.#drop(new Error(`no answer within ${SILENT_MS} ms`)), SILENT_MS)
    const answered = () => {
      clearTimeout(silent)
      if (client !== this.#client || this.#closing.signal.aborted) return
      this.#up = true
      this.#events.up()
    }
    this.send('PING').then(answered, () => clearTimeout(silent))
  }

  /** Opens another connection, as this one leads to a server that does not do. */
  reconnect(error: unknown): void {
    this.#drop(error)
  }

  /** Nothing of it is left when this has ended. */
  async close(): Promise<void> {
    this.#closing.abort()
    this.#drop(new NotConnected('closed'))
    await this.#ended
  }

  async #keep(): Promise<void> {
    const { signal } = this.#closing
    let pauseMs = FIRST_PAUSE_MS
    while (!signal.aborted) {
      const { error, wasUp } = await this.#connection()
      if (signal.aborted) return
      this.#events.down(error)
      pauseMs = wasUp ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
      await pause(pauseMs, signal)
    }
  }

  /** One connection from its beginning to its end. */
  async #connection(): Promise<{ readonly error: unknown; readonly wasUp: boolean }> {
    const end = new AbortController()
    let wasUp = false
    let client: Client | undefined
    let deadline: NodeJS.Timeout | undefined
    let drop: (error: unknown) => void = () => {}
    const failed = new Promise<never>((_, reject) => {
      drop = error => {
        // The end of an earlier connection is none of this one's.
        if (end.signal.aborted) return
        this.#client = undefined
        this.#up = false
        reject(error)
        end.abort()
      }
      deadline = setTimeout(() => drop(new Error(`no connection within ${CONNECT_MS} ms`)), CONNECT_MS)
    })
    this.#drop = drop
    try {
      const opened = openClient(this.#server, end.signal)
      client = opened
      opened.on('error', drop)
      await Promise.race([opened.connect(), failed])
      // A server that wants credentials, or is loading its data, says so here.
      await Promise.race([opened.sendCommand(['PING']), failed])
      this.#client = opened
      await Promise.race([this.#events.prepare(this), failed])
      clearTimeout(deadline)
      wasUp = true
      this.#up = true
      this.#events.up()
      return await failed
    } catch (error) {
      return { error, wasUp }
    } finally {
      clearTimeout(deadline)
      this.#client = undefined
      this.#up = false
      client?.destroy()
      end.abort()
    }
  }
}

/**
 * Loaded by the first connection, as few configurations have one. By `require`, as Node 20 says of `import()`, while the
 * program itself is still being evaluated, that it has loaded a CommonJS module, and gives all that it exports as undefined.
 */
function loadClient() {
  return createRequire(import.meta.url)('@redis/client') as typeof import('@redis/client')
}

/** @param signal closes the connection, whatever it is doing */
export function openClient(server: ServerOptions, signal: AbortSignal): Client {
  const { createClient, RESP_TYPES } = loadClient()
  const { url, ca, lookup } = server
  const common = { signal, connectTimeout: CONNECT_MS, reconnectStrategy: false } as const
  const place = { ...common, host: url.host, port: url.port, ...(lookup === undefined ? {} : { lookup }) }
  let socket: object
  if (url.path !== undefined) socket = { ...common, path: url.path, tls: false }
  else if (url.tls) socket = { ...place, tls: true, ...(ca === undefined ? {} : { ca }) }
  else socket = place
  return createClient({
    RESP: 2,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    disableOfflineQueue: true,
    commandOptions: { timeout: 0, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
    database: url.database,
    socket,
    ...(url.username === undefined ? {} : { username: url.username }),
    ...(url.password === undefined ? {} : { password: url.password }),
  }) as unknown as Client
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(ended, ms)
    signal.addEventListener('abort', ended, { once: true })
    function ended() {
      clearTimeout(timer)
      signal.removeEventListener('abort', ended)
      resolve()
    }
  })
}
