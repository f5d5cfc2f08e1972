/**
 * The fast sender: requests without content, through undici's dispatch.
 *
 * Each connection is an undici Client of its own over a socket that the dialler opened, and is never reconnected by
 * undici. Requests with content, Expect or Upgrade go through the other sender: undici holds a head back until
 * the first content comes, and sends neither trailers nor an interim answer on.
 */
import { Client, type Dispatcher } from 'undici'
import { ProxyError } from '../errors.js'
import type { Fields } from '../http/fields.js'
import type { Permit } from '../policy/permit.js'
import type { Connection, Dialer } from './dial.js'
import { dialAndSend } from './dial-and-send.js'
import { upstreamFailure } from './failures.js'
import { Pool } from './pool.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface SenderOptions {
  readonly dialer: Dialer
  /** Bytes of a response's header section. */
  readonly maxHeaderBytes: number
  /** Milliseconds an open connection waits for its next request. */
  readonly keepAliveMs: number
}

export class UndiciSender implements Sender {
  readonly #options: SenderOptions
  readonly #pool = new Pool<UndiciConnection>()

  constructor(options: SenderOptions) {
    this.#options = options
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const idle = fresh ? undefined : this.#pool.take(permit)
    if (idle !== undefined) {
      events.connected(idle.where, undefined)
      return idle.dispatch(request, events, true)
    }
    return dialAndSend(this.#options.dialer, permit, events, dialled => {
      const connection = new UndiciConnection(dialled, this.#options, this.#pool)
      return connection.dispatch(request, events, false)
    })
  }

  close(): void {
    this.#pool.close()
  }
}

class UndiciConnection {
  readonly address: string
  readonly port: number
  readonly where: string
  readonly #socket: Connection['socket']
  readonly #client: Client
  readonly #pool: Pool<UndiciConnection>

  constructor(dialled: Connection, options: SenderOptions, pool: Pool<UndiciConnection>) {
    this.address = dialled.address.text
    this.port = dialled.port
    this.where = dialled.where
    this.#socket = dialled.socket
    this.#pool = pool
    let handedOver = false
    this.#client = new Client(`http://${this.where}`, {
      // Answered in a microtask: undici does not look at its queue when the answer comes before connect returns.
      connect: (_options, callback) => {
        const gone = handedOver
        handedOver = true
        queueMicrotask(() => {
          if (gone) callback(new Error('the connection is gone'), null)
          else callback(null, dialled.socket)
        })
      },
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: options.maxHeaderBytes,
      keepAliveTimeout: options.keepAliveMs,
    })
    pool.add(this)
    dialled.socket.once('close', () => {
      pool.remove(this)
      this.close()
    })
  }

  dispatch(request: UpstreamRequest, events: UpstreamEvents, reused: boolean): Cancel {
    const handler = new DispatchHandler(this, this.#socket, events, reused)
    const headers = ['host', request.host, ...request.fields]
    if (request.sendsZeroLength) headers.push('content-length', '0')
    try {
      this.#client.dispatch(
        { method: request.method as Dispatcher.HttpMethod, path: request.path, headers, body: null },
        handler,
      )
    } catch (error) {
      this.close()
      events.failed(upstreamFailure(error, this.where), false)
    }
    return () => handler.cancel()
  }

  /** The answer is complete; undici itself may still decide to close the socket in this turn of the loop. */
  release(): void {
    setImmediate(() => {
      if (!this.#socket.destroyed) this.#pool.give(this)
    })
  }

  close(): void {
    if (!this.#client.destroyed) this.#client.destroy().catch(() => {})
    this.#socket.destroy()
  }
}

class DispatchHandler implements Dispatcher.DispatchHandler {
  readonly #connection: UndiciConnection
  readonly #socket: Connection['socket']
  readonly #events: UpstreamEvents
  readonly #reused: boolean
  readonly #bytesReadBefore: number
  #over = false

  constructor(
    connection: UndiciConnection,
    socket: Connection['socket'],
    events: UpstreamEvents,
    reused: boolean,
  ) {
    this.#connection = connection
    this.#socket = socket
    this.#events = events
    this.#reused = reused
    this.#bytesReadBefore = socket.bytesRead
  }

  /** Ends the request by ending its connection; after its answer is complete there is nothing to end. */
  cancel(): void {
    if (this.#over) return
    this.#over = true
    this.#connection.close()
  }

  onRequestStart(): void {
    if (!this.#over) this.#events.sent()
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    statusText?: string,
  ): void {
    if (this.#over) return
    const head = { status, reason: statusText ?? '', fields: decodeFields(controller.rawHeaders) }
    if (status < 200) this.#events.informed(head)
    else this.#events.responded(head, controller)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over) this.#events.data(chunk)
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#over) return
    this.#over = true
    this.#events.ended(decodeFields(controller.rawTrailers))
    this.#connection.release()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#over) return
    this.#over = true
    const stale = this.#reused && this.#socket.bytesRead === this.#bytesReadBefore
    const failure = upstreamFailure(error, this.#connection.where)
    this.#connection.close()
    this.#events.failed(failure, stale && !(failure.side === 'proxy'))
  }
}

/** undici's raw fields, one character a byte. */
function decodeFields(raw: unknown): Fields {
  if (!Array.isArray(raw)) return []
  return raw.map(part => {
    if (part instanceof Uint8Array)
      return Buffer.from(part.buffer, part.byteOffset, part.length).toString('latin1')
    if (typeof part === 'string') return part
    throw new ProxyError('http_protocol_error', 'unreadable response field')
  })
}
