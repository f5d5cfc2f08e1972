/**
 * One dialled connection: the client side of the codec on a socket, one request at a time (RFC 9112 §9).
 *
 * The head of a request is sent at once, its content as it arrives, and the response is read independently of both.
 * There is backpressure in both directions. The connection is also watched between two requests: if it is closed, or
 * unsolicited bytes arrive on it, it is not reused, as those bytes would be taken for the response to the next request,
 * of any client (RFC 9112 §11.1).
 */
import type { Socket } from 'node:net'
import { ProxyError, toProxyError } from '../errors.js'
import { FIELD } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { serializeRequestHead } from '../http1/request-writer.js'
import {
  type ReceivedHead,
  type ResponseEvent,
  type ResponseLimits,
  ResponseReader,
} from '../http1/response-reader.js'
import { handleData, handleEvents, ignoreEvents, SocketHandler } from '../net/socket-handler.js'
import { ContentSender } from './content-sender.js'
import type { Connection } from './dial.js'
import { upstreamFailure } from './failures.js'
import { ReadBeforeFailing } from './read-before-failing.js'
import type { Cancel, Flow, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface ConnectionOptions {
  readonly limits: ResponseLimits
  /** Milliseconds that it may be idle; 0 if it is for a single request. */
  readonly keepAliveMs: number
}

/** Owns connections and is notified of their state: the pool. */
export interface ConnectionOwner<C> {
  /** The response is complete, and the connection can be reused. */
  give(connection: C): void
  /** The connection is closed. */
  remove(connection: C): void
}

/** Reads a socket that emits no `data` events because it was dialled with `onread`. */
export interface ByteSource {
  start(copyBelow: number, consume: (chunk: Buffer) => boolean): void
}

/** Milliseconds before the timeout in an origin's Keep-Alive field at which its connection is no longer reused. */
export const KEEP_ALIVE_MARGIN_MS = 1000
const KEEP_ALIVE_TIMEOUT = /(?:^|[,\s])timeout=(\d{1,6})(?:$|[,\s])/i

export class Http1Connection extends SocketHandler {
  /** Its key in the pool. */
  readonly key: string
  /** `address:port`, IPv6 in brackets. */
  readonly where: string
  readonly socket: Socket
  /** Set by the pool; see Poolable. */
  idleSince = 0
  readonly #reader: ResponseReader
  readonly #options: ConnectionOptions
  readonly #owner: ConnectionOwner<Http1Connection>
  readonly #writing: ReadBeforeFailing
  readonly #connectMs: number
  #exchange: ClientExchange | undefined
  /** Whether it has carried a request. */
  #used = false
  /** Whether the system has taken each write at once so far; with TLS it never does. */
  #isAtOnce = true
  #reading = false
  #ending: 'none' | 'in order' | 'broken' = 'none'
  #failure: Error | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #idleMs = 0

  /**
   * @param dialled a connection on which nothing has been written or read
   * @param key its key in the pool
   * @param source reads its socket, if that was dialled with `onread`
   */
  constructor(
    dialled: Connection,
    key: string,
    options: ConnectionOptions,
    owner: ConnectionOwner<Http1Connection>,
    source?: ByteSource,
  ) {
    super()
    this.key = key
    this.where = dialled.where
    this.socket = dialled.socket
    this.#connectMs = dialled.connectMs
    this.#options = options
    this.#owner = owner
    this.#reader = new ResponseReader(options.limits)
    this.#writing = new ReadBeforeFailing(dialled.socket)
    handleEvents(dialled.socket, this)
    if (source === undefined) handleData(dialled.socket)
    else {
      source.start(Number.POSITIVE_INFINITY, chunk => {
        this.onData(chunk)
        return this.#exchange?.isPaused !== true
      })
    }
  }

  /** Whether it can carry a request: nothing is known that prevents it. */
  get isOpen(): boolean {
    return this.#ending === 'none' && !this.socket.destroyed
  }

  /**
   * Sends a request on an open connection that carries none.
   * @returns cancels the request and closes the connection while the response is incomplete; no event follows
   */
  send(request: UpstreamRequest, events: UpstreamEvents): Cancel {
    const exchange = new ClientExchange(request, events)
    this.carry(exchange)
    return exchange.cancel
  }

  /** Sends the request of an exchange on an open connection that carries none. */
  carry(exchange: ClientExchange): void {
    const { request, events } = exchange
    const { socket } = this
    const connectMs = this.#used ? undefined : this.#connectMs
    exchange.connection = this
    exchange.isReused = this.#used
    this.#exchange = exchange
    this.#used = true
    let head: string | ProxyError
    try {
      head = this.isOpen ? serializeRequestHead(request) : this.#breakage()
    } catch (cause) {
      head = new ProxyError('proxy_internal_error', 'request cannot be sent', { cause })
    }
    if (typeof head === 'string') {
      this.#reader.expect({ method: request.method, upgrade: request.upgrade !== undefined })
      if (request.content === undefined && this.#isAtOnce) {
        socket.write(head, 'latin1')
        // Usually the system has taken all of it by now. Then no callback is awaited, which would take another tick.
        exchange.isSent = socket.writableLength === 0
      }
    }
    events.connected(this.where, connectMs, exchange.isSent)
    if (exchange.isSent || exchange.isOver) return
    if (typeof head === 'string') this.#sendOn(exchange, head)
    else this.#fail(head)
  }

  /** Sends what was not sent before `connected` was reported. */
  #sendOn(exchange: ClientExchange, head: string): void {
    const { socket } = this
    const { content } = exchange.request
    const onSent = (error?: Error | null): void => this.#onSent(exchange, error)
    if (content === undefined) {
      // If writes may be taken at once, the head has been written already: an empty write after it reports its end.
      if (this.#isAtOnce) socket.write('', onSent)
      else socket.write(head, 'latin1', onSent)
      this.#isAtOnce = false
      return
    }
    this.#writing.begin()
    exchange.sender = new ContentSender(socket, content, onSent)
    // Content that is already available is sent together with the head; the head does not wait for any.
    socket.cork()
    socket.write(head, 'latin1')
    content.start(exchange.sender)
    socket.uncork()
  }

  /** Returns the connection to the pool: nothing was sent on it. */
  giveBack(): void {
    this.#owner.give(this)
  }

  /** Closes the connection; no further event is reported for a request that it carries. */
  abandon(): void {
    this.#end()
    this.socket.destroy()
  }

  /** Closes the connection and fails a request that it carries. */
  close(): void {
    this.#fail(new ProxyError('connection_terminated', `connection closed: ${this.where}`), true)
    this.socket.destroy()
  }

  /** The receiver of the response can take more of it. */
  resume(): void {
    this.#read()
    if (this.#exchange?.isPaused !== true) this.socket.resume()
  }

  override onData(chunk: Buffer): void {
    if (this.#exchange === undefined) {
      this.socket.destroy()
      return
    }
    this.#reader.input.push(chunk)
    this.#read()
  }

  override onEnd(): void {
    if (this.#ending === 'none') this.#ending = 'in order'
    if (this.#exchange === undefined) this.socket.destroy()
    else this.#read()
  }

  override onDrain(): void {
    const exchange = this.#exchange
    if (exchange?.sender?.isStopped === false) exchange.request.content?.resume()
  }

  override onError(error: Error): void {
    this.#failure ??= error
  }

  /** What was received before the connection closed is read first. */
  override onClose(): void {
    clearTimeout(this.#idleTimer)
    this.#owner.remove(this)
    if (this.#exchange === undefined) return
    const rest: unknown = this.socket.read()
    if (rest instanceof Buffer) this.#reader.input.push(rest)
    if (this.#ending === 'none') this.#ending = 'broken'
    this.#read()
  }

  /** The idle timer has fired; the connection may carry a request by now. */
  onIdle(): void {
    if (this.#exchange === undefined) this.close()
  }

  /** The last byte of the request was handed to the system. Without that a connection is not reused. */
  #onSent(exchange: ClientExchange, error: Error | null | undefined): void {
    if (exchange.isOver || (error !== undefined && error !== null)) return
    exchange.isSent = true
    exchange.events.sent()
  }

  /** Reports what has been received, until the receiver pauses. */
  #read(): void {
    if (this.#reading) return
    this.#reading = true
    try {
      // The receiver of `ended` may send the next request on this connection.
      for (let exchange = this.#exchange; exchange?.isPaused === false; exchange = this.#exchange) {
        let event: ResponseEvent | undefined
        try {
          event = this.#reader.next()
          if (event === undefined && this.#ending !== 'none') event = this.#finish()
        } catch (error) {
          this.#fail(toProxyError(error))
          return
        }
        if (event === undefined) return
        const { events } = exchange
        switch (event.type) {
          case 'data':
            events.data(event.chunk)
            break
          case 'head':
            exchange.idleMs = event.head.fields.has(FIELD['keep-alive'])
              ? idleTime(event.head, this.#options.keepAliveMs)
              : this.#options.keepAliveMs
            // An origin that responds with an error and closes is not sent the rest of the content (RFC 9112 §9.5).
            if (event.head.status >= 400 && !this.#reader.persistent) exchange.dropContent()
            events.responded(event.head, exchange)
            break
          case 'interim':
            events.interim(event.head)
            break
          case 'end':
            this.#complete(exchange, event.trailers)
            break
          case 'switched':
            this.#switch(exchange, event.head)
            break
        }
      }
    } finally {
      this.#reading = false
    }
  }

  /** The response is complete: the connection is returned to the pool or closed. */
  #complete(exchange: ClientExchange, trailers: Fields): void {
    const reader = this.#reader
    const { idleMs } = exchange
    exchange.isOver = true
    this.#exchange = undefined
    if (exchange.isSent && reader.persistent && reader.input.length === 0 && idleMs > 0 && this.isOpen) {
      // One timer serves all idle periods of a connection; it may fire while a request is in progress.
      if (idleMs === this.#idleMs) this.#idleTimer?.refresh()
      else {
        clearTimeout(this.#idleTimer)
        this.#idleTimer = setTimeout(idled, idleMs, this)
        this.#idleTimer.unref()
        this.#idleMs = idleMs
      }
      this.#owner.give(this)
    } else {
      // The rest of the content cannot be sent.
      exchange.sender?.stop()
      if (!exchange.isSent) exchange.request.content?.stop()
      this.socket.destroy()
    }
    exchange.events.ended(trailers)
  }

  #switch(exchange: ClientExchange, head: ReceivedHead): void {
    const socket = this.socket
    this.#end()
    clearTimeout(this.#idleTimer)
    this.#writing.release()
    socket.pause()
    ignoreEvents(socket)
    this.#owner.remove(this)
    exchange.events.upgraded(head, socket, this.#reader.takeRest())
  }

  /** @param isOurs whether this side has closed the connection, so that another attempt would be pointless */
  #fail(error: ProxyError, isOurs = false): void {
    const exchange = this.#exchange
    if (exchange === undefined) return
    this.#end()
    // Content that arrives from now on would be missing if the request is sent on another connection.
    exchange.request.content?.stop()
    this.socket.destroy()
    const isStale = exchange.isReused && !this.#reader.hasBegun && !isOurs && error.side === 'upstream'
    exchange.events.failed(error, isStale && isRepeatable(exchange.request) ? 'reused-connection' : 'never')
  }

  /** Detaches the request that it carries, whose response is not complete. */
  #end(): void {
    const exchange = this.#exchange
    if (exchange === undefined) return
    exchange.isOver = true
    exchange.sender?.stop()
    this.#exchange = undefined
  }

  /**
   * What the end of the connection means for the response.
   * @throws ProxyError 502 if the response is not complete
   */
  #finish(): ResponseEvent | undefined {
    if (this.#ending === 'broken') throw this.#breakage()
    try {
      return this.#reader.finish()
    } catch (error) {
      const { type, message } = toProxyError(error)
      throw new ProxyError(type, `${message}: ${this.where}`)
    }
  }

  #breakage(): ProxyError {
    if (this.#failure !== undefined) return upstreamFailure(this.#failure, this.where)
    return new ProxyError('connection_terminated', `connection closed: ${this.where}`)
  }
}

/** One request and its response, from the search for a connection to the end. */
export class ClientExchange implements Flow {
  readonly request: UpstreamRequest
  readonly events: UpstreamEvents
  /** Cancels the dial for it. */
  dialling: AbortController | undefined
  /** The connection that it is sent on, or the idle one that is being checked for it. */
  connection: Http1Connection | undefined
  /** Turns of the event loop for which its idle connection is still watched before anything is sent. */
  turnsToWatch = 0
  /** Whether the connection had carried a request before. */
  isReused = false
  /** Whether the last byte of the request was handed to the system. */
  isSent = false
  isPaused = false
  /** Once this is true, no further event is reported. */
  isOver = false
  /** Milliseconds that the connection may be idle after this response. */
  idleMs = 0
  /** Sends its content, if it has any. */
  sender: ContentSender | undefined

  constructor(request: UpstreamRequest, events: UpstreamEvents) {
    this.request = request
    this.events = events
  }

  /** Cancels it. A connection that it may have been sent on is closed. */
  readonly cancel: Cancel = () => {
    if (this.isOver) return
    this.isOver = true
    this.dialling?.abort()
    if (this.turnsToWatch > 0) this.connection?.giveBack()
    else this.connection?.abandon()
  }

  pause(): void {
    if (this.isOver) return
    this.isPaused = true
    this.connection?.socket.pause()
  }

  resume(): void {
    if (!this.isPaused || this.isOver) return
    this.isPaused = false
    this.connection?.resume()
  }

  /** Reads the rest of the content and discards it. */
  dropContent(): void {
    if (this.isSent) return
    this.sender?.stop()
    this.request.content?.resume()
  }
}

/**
 * Whether a request may be sent again after its connection was closed without a response: the origin may process it
 * twice then, and all of its content must still be there (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
 */
function isRepeatable({ method, content }: UpstreamRequest): boolean {
  return methodProperties(method).idempotent && (content === undefined || content.bytes === 0)
}

function idled(connection: Http1Connection): void {
  connection.onIdle()
}

/** Milliseconds that the connection may be idle: our own limit, and less than the origin's (RFC 9112 §9.3). */
function idleTime({ fields }: ReceivedHead, keepAliveMs: number): number {
  const hint = fields.value(FIELD['keep-alive'])
  const seconds = hint === undefined ? undefined : KEEP_ALIVE_TIMEOUT.exec(hint)?.[1]
  if (seconds === undefined) return keepAliveMs
  return Math.min(keepAliveMs, Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS)
}
