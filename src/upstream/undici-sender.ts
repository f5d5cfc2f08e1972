/**
 * The fast sender: requests without content, through undici's dispatch.
 *
 * Each connection is an undici Client of its own over a socket that the dialler opened, and is never reconnected by
 * undici. Requests with content, Expect or Upgrade go through the other sender: undici holds a head back until
 * the first content comes, and sends neither trailers nor an interim answer on. Origins that send 100 without being
 * asked, which ends a request for undici, are remembered, so that the other sender is asked at once next time.
 */
import { Client, type Dispatcher } from 'undici'
import { ProxyError } from '../errors.js'
import type { Fields } from '../http/fields.js'
import type { Permit } from '../policy/permit.js'
import { BoundedSet } from './bounded-set.js'
import type { Connection, Connects } from './dial.js'
import { Attempt } from './attempt.js'
import { notHttp, overlong, upstreamFailure } from './failures.js'
import { Pool, type UpstreamScheme } from './pool.js'
import { ResponseWatch } from './response-watch.js'
import type { Again, Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface SenderOptions {
  /** What the dialler's connections speak. */
  readonly scheme: UpstreamScheme
  readonly dialer: Connects
  /** Bytes of a response's header section. */
  readonly maxHeaderBytes: number
  /** Milliseconds an open connection waits for its next request. */
  readonly keepAliveMs: number
}

/** Authorities, each at one address, remembered as avoided. */
const MAX_AVOIDED = 1000

export class UndiciSender implements Sender {
  readonly #options: SenderOptions
  readonly #pool: Pool<UndiciConnection>
  readonly #avoided = new BoundedSet<string>(MAX_AVOIDED)

  constructor(options: SenderOptions) {
    this.#options = options
    this.#pool = new Pool(options.scheme)
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const attempt = new Attempt()
    const dial = (): void =>
      attempt.dial(this.#options.dialer, permit, events, dialled => {
        const connection = new UndiciConnection(dialled, permit, this.#options, this.#pool, this.#avoided)
        return connection.dispatch(request, events, false)
      })
    const idle = fresh ? undefined : this.#pool.take(permit)
    if (idle === undefined) dial()
    else {
      const send = (): Cancel => idle.dispatch(request, events, true)
      attempt.reuse(idle, events, send, dial, () => this.#pool.give(idle))
    }
    return attempt.cancel
  }

  avoids(permit: Permit): boolean {
    if (this.#avoided.size === 0) return false
    return permit.addresses.some(({ text }) => this.#avoided.has(this.#pool.keyOf(permit, text)))
  }

  retire(): void {
    this.#pool.retire()
  }

  close(): void {
    this.#pool.close()
  }
}

class UndiciConnection {
  readonly key: string
  readonly where: string
  readonly watch: ResponseWatch
  readonly socket: Connection['socket']
  readonly #client: Client
  readonly #pool: Pool<UndiciConnection>
  readonly #avoided: BoundedSet<string>

  constructor(
    dialled: Connection,
    permit: Permit,
    options: SenderOptions,
    pool: Pool<UndiciConnection>,
    avoided: BoundedSet<string>,
  ) {
    this.key = pool.keyOf(permit, dialled.address.text)
    this.where = dialled.where
    this.socket = dialled.socket
    this.#pool = pool
    this.#avoided = avoided
    this.watch = new ResponseWatch(options.maxHeaderBytes, () => this.close())
    let handedOver = false
    this.#client = new Client(`http://${this.where}`, {
      // Answered in a microtask: undici does not look at its queue when the answer comes before connect returns.
      connect: (_options, callback) => {
        const gone = handedOver
        handedOver = true
        queueMicrotask(() => {
          if (gone) callback(new Error('the connection is gone'), null)
          else {
            callback(null, dialled.socket)
            // After undici's own listener for `readable`: this one may look on but must not make the socket flow.
            dialled.socket.on('data', this.watch.observe)
          }
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
    const handler = new DispatchHandler(this, this.socket, events, reused)
    this.watch.expect(
      () => handler.fail(notHttp(this.where), 'no'),
      () => handler.fail(overlong(this.where), 'no'),
    )
    const headers = ['host', request.host, ...request.fields]
    if (request.sendsZeroLength) headers.push('content-length', '0')
    try {
      this.#client.dispatch(
        { method: request.method as Dispatcher.HttpMethod, path: request.path, headers, body: null },
        handler,
      )
    } catch (error) {
      handler.fail(upstreamFailure(error, this.where), 'no')
    }
    return () => handler.cancel()
  }

  /** The answer is complete; undici itself may still decide to close the socket in this turn of the loop. */
  release(): void {
    this.watch.rest()
    setImmediate(() => {
      if (!this.socket.destroyed) this.#pool.give(this)
    })
  }

  /** Remembers that this sender can not take what the origin answers. */
  avoid(): void {
    this.#avoided.add(this.key)
  }

  close(): void {
    if (!this.#client.destroyed) this.#client.destroy().catch(() => {})
    this.socket.destroy()
  }
}

class DispatchHandler implements Dispatcher.DispatchHandler {
  readonly #connection: UndiciConnection
  readonly #socket: Connection['socket']
  readonly #events: UpstreamEvents
  readonly #reused: boolean
  readonly #bytesReadBefore: number
  #responded = false
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
    const { minor } = this.#connection.watch
    const head = { status, minor, reason: statusText ?? '', fields: decodeFields(controller.rawHeaders) }
    if (status < 200) this.#events.informed(head)
    else {
      this.#responded = true
      this.#events.responded(head, controller)
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over) this.#events.data(chunk)
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#over) return
    if (this.#socket.errored !== null) {
      // undici takes a reset for the end of content that only the end of the connection marks.
      this.fail(upstreamFailure(this.#socket.errored, this.#connection.where), 'no')
      return
    }
    this.#over = true
    this.#events.ended(decodeFields(controller.rawTrailers))
    this.#connection.release()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#over) return
    const { where } = this.#connection
    if (error.message === UNASKED_100) {
      this.#connection.avoid()
      const failure = new ProxyError('http_protocol_error', `100 without being asked: ${where}`, {
        cause: error,
      })
      this.fail(failure, 'exact')
    } else if (error.message === UNASKED_101) {
      const message = `protocol switched without being asked: ${where}`
      this.fail(new ProxyError('http_upgrade_failed', message, { cause: error }), 'no')
    } else if (error.name === 'ResponseContentLengthMismatchError' && !this.#responded) {
      // What undici calls every malformed head that holds a Content-Length.
      this.fail(notHttp(where, error), 'no')
    } else {
      const failure = upstreamFailure(error, where)
      const stale = this.#reused && this.#socket.bytesRead === this.#bytesReadBefore
      this.fail(failure, stale && failure.side !== 'proxy' ? 'stale' : 'no')
    }
  }

  fail(error: ProxyError, again: Again): void {
    if (this.#over) return
    this.#over = true
    this.#connection.close()
    this.#events.failed(error, again)
  }
}

/** The messages of undici's errors for an interim response that it does not take, which have no code of their own. */
const UNASKED_100 = 'bad response'
const UNASKED_101 = 'bad upgrade'

/** undici's raw fields, one character a byte. */
function decodeFields(raw: unknown): Fields {
  if (!Array.isArray(raw)) return []
  const fields: string[] = []
  for (const part of raw as unknown[]) {
    if (typeof part === 'string') fields.push(part)
    else if (part instanceof Buffer) fields.push(part.toString('latin1'))
    else throw new ProxyError('http_protocol_error', 'unreadable response field')
  }
  return fields
}
