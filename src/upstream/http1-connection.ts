/**
 * One dialled connection: the client's half of the codec driven on a socket (RFC 9112 §9), one request at a time.
 *
 * The head of a request is sent at once and its content as it comes; the response is read meanwhile, whatever becomes
 * of the request. Both directions are held back by whoever takes the bytes. Between two requests the connection is
 * listened to, so that one that ends, or on which bytes come that nobody asked for, is not used again: they would be
 * the answer to the next request, whoever sends it (RFC 9112 §11.1).
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
  /** Milliseconds that it may be idle; 0 when it is for one request. */
  readonly keepAliveMs: number
}

/** Whoever keeps connections. */
export interface ConnectionOwner<C> {
  /** Its response is complete, and it can be used again. */
  give(connection: C): void
  /** It is closed. */
  remove(connection: C): void
}

/** What reads a socket whose bytes do not come as `data` events. */
export interface ByteSource {
  start(copyBelow: number, consume: (chunk: Buffer) => boolean): void
}

/** Milliseconds before the time that an origin names in Keep-Alive, at which its connection is not used any more. */
export const KEEP_ALIVE_MARGIN_MS = 1000
const KEEP_ALIVE_TIMEOUT = /(?:^|[,\s])timeout=(\d{1,6})(?:$|[,\s])/i

export class Http1Connection extends SocketHandler {
  /** What it is pooled under. */
  readonly key: string
  /** `address:port`, IPv6 in brackets. */
  readonly where: string
  readonly socket: Socket
  /** The pool's. */
  idleSince = 0
  readonly #reader: ResponseReader
  readonly #options: ConnectionOptions
  readonly #owner: ConnectionOwner<Http1Connection>
  readonly #writing: ReadBeforeFailing
  readonly #connectMs: number
  #exchange: ClientExchange | undefined
  /** Whether it has carried a request. */
  #used = false
  /** Whether what is written is in the system's hands with that, as far as is known; over TLS it never is. */
  #isAtOnce = true
  #reading = false
  #ending: 'none' | 'in order' | 'broken' = 'none'
  #failure: Error | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #idleMs = 0

  /**
   * @param dialled a connection on which nothing has been written or read
   * @param key what it is pooled under
   * @param source reads its socket, where that was dialled with a reader
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

  /** Whether it can carry a request, as far as is known. */
  get isOpen(): boolean {
    return this.#ending === 'none' && !this.socket.destroyed
  }

  /**
   * Sends a request on an open connection that carries none.
   * @returns what ends it, and the connection with it, until its response is complete; nothing is reported after that
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
        // The system has mostly taken all of it by now. No callback is waited for then, which would take a tick more.
        exchange.isSent = socket.writableLength === 0
      }
    }
    events.connected(this.where, connectMs, exchange.isSent)
    if (exchange.isSent || exchange.isOver) return
    if (typeof head === 'string') this.#sendOn(exchange, head)
    else this.#fail(head)
  }

  /** Sends what has not left with the news of its connection. */
  #sendOn(exchange: ClientExchange, head: string): void {
    const { socket } = this
    const { content } = exchange.request
    const onSent = (error?: Error | null): void => this.#onSent(exchange, error)
    if (content === undefined) {
      // It has been written where it might have been taken at once: what is behind it is taken after it.
      if (this.#isAtOnce) socket.write('', onSent)
      else socket.write(head, 'latin1', onSent)
      this.#isAtOnce = false
      return
    }
    this.#writing.begin()
    exchange.sender = new ContentSender(socket, content, onSent)
    // Content that is there already leaves together with the head, which waits for none.
    socket.cork()
    socket.write(head, 'latin1')
    content.start(exchange.sender)
    socket.uncork()
  }

  /** Leaves it to others: nothing was sent on it. */
  giveBack(): void {
    this.#owner.give(this)
  }

  /** Ends it; of a request that it carries nothing more is reported. */
  abandon(): void {
    this.#end()
    this.socket.destroy()
  }

  /** Ends it, and a request that it carries. */
  close(): void {
    this.#fail(new ProxyError('connection_terminated', `connection closed: ${this.where}`), true)
    this.socket.destroy()
  }

  /** The receiver of the response takes more of it. */
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

  /** What was received before the end is read before the end counts. */
  override onClose(): void {
    clearTimeout(this.#idleTimer)
    this.#owner.remove(this)
    if (this.#exchange === undefined) return
    const rest: unknown = this.socket.read()
    if (rest instanceof Buffer) this.#reader.input.push(rest)
    if (this.#ending === 'none') this.#ending = 'broken'
    this.#read()
  }

  /** It has been idle for its time; it may carry a request meanwhile. */
  onIdle(): void {
    if (this.#exchange === undefined) this.close()
  }

  /** The last byte of the request was handed to the system; a connection whose request was not is not used again. */
  #onSent(exchange: ClientExchange, error: Error | null | undefined): void {
    if (exchange.isOver || (error !== undefined && error !== null)) return
    exchange.isSent = true
    exchange.events.sent()
  }

  /** Reports all that has come, as far as the receiver takes it. */
  #read(): void {
    if (this.#reading) return
    this.#reading = true
    try {
      // Whoever receives the end of a response may send the next request on this connection.
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
            // RFC 9112 §9.5: an origin that refuses the rest of the content is not sent it.
            if (event.head.status >= 400 && !this.#reader.persistent) exchange.dropContent()
            events.responded(event.head, exchange)
            break
          case 'interim':
            events.informed(event.head)
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

  /** The response is complete: the connection is free for the next request, or closed. */
  #complete(exchange: ClientExchange, trailers: Fields): void {
    const reader = this.#reader
    const { idleMs } = exchange
    exchange.isOver = true
    this.#exchange = undefined
    if (exchange.isSent && reader.persistent && reader.input.length === 0 && idleMs > 0 && this.isOpen) {
      // One timer serves all idle times of a connection; it may go off while a request is under way.
      if (idleMs === this.#idleMs) this.#idleTimer?.refresh()
      else {
        clearTimeout(this.#idleTimer)
        this.#idleTimer = setTimeout(idled, idleMs, this)
        this.#idleTimer.unref()
        this.#idleMs = idleMs
      }
      this.#owner.give(this)
    } else {
      // What is left of the content has nowhere to go.
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

  /** @param isOurs whether it was ended from this side, which no second attempt is a remedy for */
  #fail(error: ProxyError, isOurs = false): void {
    const exchange = this.#exchange
    if (exchange === undefined) return
    this.#end()
    // What came after this would be lost to another connection that the request may be sent on.
    exchange.request.content?.stop()
    this.socket.destroy()
    const isStale = exchange.isReused && !this.#reader.hasBegun && !isOurs && error.side === 'upstream'
    exchange.events.failed(error, isStale && isRepeatable(exchange.request) ? 'reused-connection' : 'never')
  }

  /** It carries no request any more, and what it carried is not complete. */
  #end(): void {
    const exchange = this.#exchange
    if (exchange === undefined) return
    exchange.isOver = true
    exchange.sender?.stop()
    this.#exchange = undefined
  }

  /**
   * What the end of the connection is to the response.
   * @throws ProxyError 502 when the response is not complete
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

/** One request and its response: while a connection is looked for, and on the one that it is sent on. */
export class ClientExchange implements Flow {
  readonly request: UpstreamRequest
  readonly events: UpstreamEvents
  /** What dials for it. */
  dialling: AbortController | undefined
  /** That it is on, or that is looked at for it. */
  connection: Http1Connection | undefined
  /** How often its connection, which was idle, is still to be looked at before anything is sent. */
  looks = 0
  /** Whether the connection had carried a request before. */
  isReused = false
  /** Whether the last byte of the request was handed to the system. */
  isSent = false
  isPaused = false
  /** Whether nothing more of it is reported. */
  isOver = false
  /** Milliseconds that the connection may be idle behind this response. */
  idleMs = 0
  /** What its content goes through, if it has any. */
  sender: ContentSender | undefined

  constructor(request: UpstreamRequest, events: UpstreamEvents) {
    this.request = request
    this.events = events
  }

  /** Ends what is under way for it; a connection that it may have been sent on ends with it. */
  readonly cancel: Cancel = () => {
    if (this.isOver) return
    this.isOver = true
    this.dialling?.abort()
    if (this.looks > 0) this.connection?.giveBack()
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

  /** The rest of the content is read, and not sent. */
  dropContent(): void {
    if (this.isSent) return
    this.sender?.stop()
    this.request.content?.resume()
  }
}

/**
 * Whether a request may be sent a second time when its connection died without an answer: what it asks for is asked
 * for twice then, and none of its content may be gone (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
 */
function isRepeatable({ method, content }: UpstreamRequest): boolean {
  return methodProperties(method).idempotent && (content === undefined || content.bytes === 0)
}

function idled(connection: Http1Connection): void {
  connection.onIdle()
}

/** How long the connection may be idle: what we are willing to wait, and less than the origin is (RFC 9112 §9.3). */
function idleTime({ fields }: ReceivedHead, keepAliveMs: number): number {
  const hint = fields.value(FIELD['keep-alive'])
  const seconds = hint === undefined ? undefined : KEEP_ALIVE_TIMEOUT.exec(hint)?.[1]
  if (seconds === undefined) return keepAliveMs
  return Math.min(keepAliveMs, Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS)
}
