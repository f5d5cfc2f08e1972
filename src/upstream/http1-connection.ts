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
import type { ContentConsumer } from '../exchange.js'
import { FIELD } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { trailerFields } from '../http/trailers.js'
import { CHUNK_END, chunkHead, type ContentWriter } from '../http1/content-writer.js'
import { contentWriter, serializeRequestHead } from '../http1/request-writer.js'
import {
  type ReceivedHead,
  type ResponseEvent,
  type ResponseLimits,
  ResponseReader,
} from '../http1/response-reader.js'
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
const KEEP_ALIVE_MARGIN_MS = 1000
const KEEP_ALIVE_TIMEOUT = /(?:^|[,\s])timeout=(\d{1,6})(?:$|[,\s])/i

export class Http1Connection {
  /** What it is pooled under. */
  readonly key: string
  /** `address:port`, IPv6 in brackets. */
  readonly where: string
  readonly socket: Socket
  readonly #reader: ResponseReader
  readonly #options: ConnectionOptions
  readonly #owner: ConnectionOwner<Http1Connection>
  readonly #writing: ReadBeforeFailing
  #exchange: ClientExchange | undefined
  /** Whether it has carried a request. */
  #used = false
  #advancing = false
  #ending: 'none' | 'in order' | 'broken' = 'none'
  #failure: Error | undefined
  #idleTimer: NodeJS.Timeout | undefined

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
    this.key = key
    this.where = dialled.where
    this.socket = dialled.socket
    this.#options = options
    this.#owner = owner
    this.#reader = new ResponseReader(options.limits)
    this.#writing = new ReadBeforeFailing(dialled.socket)
    for (const [event, listener] of this.#listeners) dialled.socket.on(event, listener)
    if (source === undefined) dialled.socket.on('data', this.#onData)
    else {
      source.start(Number.POSITIVE_INFINITY, chunk => {
        this.#onData(chunk)
        return this.#exchange?.paused !== true
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
    clearTimeout(this.#idleTimer)
    const exchange = new ClientExchange(this, request, events, this.#used)
    this.#used = true
    this.#exchange = exchange
    if (this.isOpen) {
      this.#reader.expect({ method: request.method, upgrade: request.upgrade !== undefined })
      this.#write(exchange)
    } else this.#fail(this.#breakage())
    return () => {
      if (this.#exchange === exchange) this.abandon()
    }
  }

  /** Ends it; of a request that it carries nothing more is reported. */
  abandon(): void {
    this.#exchange = undefined
    this.socket.destroy()
  }

  /** Ends it, and a request that it carries. */
  close(): void {
    this.#fail(new ProxyError('connection_terminated', `connection closed: ${this.where}`), true)
    this.socket.destroy()
  }

  #write(exchange: ClientExchange): void {
    const socket = this.socket
    const { content } = exchange.request
    let head: string
    try {
      head = serializeRequestHead(exchange.request)
    } catch (cause) {
      this.#fail(new ProxyError('proxy_internal_error', 'request cannot be sent', { cause }))
      return
    }
    if (content === undefined) {
      socket.write(head, 'latin1', exchange.onSent)
      return
    }
    this.#writing.begin()
    // Content that is there already leaves together with the head, which waits for none.
    socket.cork()
    socket.write(head, 'latin1')
    content.start(exchange)
    socket.uncork()
  }

  /** @returns false when the origin is behind */
  writeContent(exchange: ClientExchange, chunk: Buffer): boolean {
    if (this.#exchange !== exchange || exchange.isDropping) return true
    const socket = this.socket
    exchange.writer.count(chunk.length)
    if (exchange.writer.framing !== 'chunked') return socket.write(chunk)
    // A chunk of no bytes would end the content.
    if (chunk.length === 0) return !socket.writableNeedDrain
    socket.cork()
    socket.write(chunkHead(chunk.length), 'latin1')
    socket.write(chunk)
    socket.write(CHUNK_END, 'latin1')
    socket.uncork()
    return !socket.writableNeedDrain
  }

  endContent(exchange: ClientExchange, trailers: Fields): void {
    if (this.#exchange !== exchange || exchange.isDropping) return
    // Written also when it is empty: its callback says that all in front of it has been.
    this.socket.write(exchange.writer.end(trailerFields(trailers)), 'latin1', exchange.onSent)
  }

  isCurrent(exchange: ClientExchange): boolean {
    return this.#exchange === exchange
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.#advance()
    if (this.#exchange?.paused !== true) this.socket.resume()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#exchange === undefined) {
      this.socket.destroy()
      return
    }
    this.#reader.push(chunk)
    this.#advance()
  }

  readonly #onEnd = (): void => {
    if (this.#ending === 'none') this.#ending = 'in order'
    if (this.#exchange === undefined) this.socket.destroy()
    else this.#advance()
  }

  readonly #onDrain = (): void => {
    const exchange = this.#exchange
    if (exchange !== undefined && !exchange.isDropping) exchange.request.content?.resume()
  }

  readonly #onError = (error: Error): void => {
    this.#failure ??= error
  }

  /** What was received before the end is read before the end counts. */
  readonly #onClose = (): void => {
    clearTimeout(this.#idleTimer)
    this.#owner.remove(this)
    if (this.#exchange === undefined) return
    const rest: unknown = this.socket.read()
    if (rest instanceof Buffer) this.#reader.push(rest)
    if (this.#ending === 'none') this.#ending = 'broken'
    this.#advance()
  }

  readonly #listeners = [
    ['end', this.#onEnd],
    ['drain', this.#onDrain],
    ['error', this.#onError],
    ['close', this.#onClose],
  ] as const

  /** Reports all that has come, as far as the receiver takes it. */
  #advance(): void {
    if (this.#advancing) return
    this.#advancing = true
    try {
      while (this.#step()) {}
    } finally {
      this.#advancing = false
    }
  }

  #step(): boolean {
    const exchange = this.#exchange
    if (exchange === undefined || exchange.paused) return false
    let event: ResponseEvent | undefined
    try {
      event = this.#reader.next()
      if (event === undefined && this.#ending === 'in order') event = this.#finish()
    } catch (error) {
      this.#fail(toProxyError(error))
      return false
    }
    if (event !== undefined) this.#deliver(exchange, event)
    else if (this.#ending === 'broken') this.#fail(this.#breakage())
    return event !== undefined
  }

  #deliver(exchange: ClientExchange, event: ResponseEvent): void {
    const { events } = exchange
    switch (event.type) {
      case 'data':
        events.data(event.chunk)
        return
      case 'head':
        exchange.idleMs = idleTime(event.head, this.#options.keepAliveMs)
        // RFC 9112 §9.5: an origin that refuses the rest of the content is not sent it.
        if (event.head.status >= 400 && !this.#reader.persistent) exchange.drop()
        events.responded(event.head, exchange)
        return
      case 'interim':
        events.informed(event.head)
        return
      case 'end':
        this.#complete(exchange, event.trailers)
        return
      case 'switched':
        this.#switch(exchange, event.head)
    }
  }

  #complete(exchange: ClientExchange, trailers: Fields): void {
    this.#exchange = undefined
    const reader = this.#reader
    const isReusable = exchange.isSent && reader.persistent && reader.buffered === 0
    if (isReusable && exchange.idleMs > 0 && this.isOpen) this.#rest(exchange.idleMs)
    else {
      // What is left of the content has nowhere to go.
      if (!exchange.isSent) exchange.request.content?.stop()
      this.socket.destroy()
    }
    exchange.events.ended(trailers)
  }

  #rest(idleMs: number): void {
    this.#idleTimer = setTimeout(() => this.close(), idleMs)
    this.#idleTimer.unref()
    this.#owner.give(this)
  }

  #switch(exchange: ClientExchange, head: ReceivedHead): void {
    const socket = this.socket
    this.#exchange = undefined
    this.#writing.release()
    socket.pause()
    socket.off('data', this.#onData)
    for (const [event, listener] of this.#listeners) socket.off(event, listener)
    this.#owner.remove(this)
    exchange.events.upgraded(head, socket, this.#reader.takeRest())
  }

  /** @param isOurs whether it was ended from this side, which no second attempt is a remedy for */
  #fail(error: ProxyError, isOurs = false): void {
    const exchange = this.#exchange
    if (exchange === undefined) return
    this.#exchange = undefined
    // What came after this would be lost to another connection that the request may be sent on.
    exchange.request.content?.stop()
    this.socket.destroy()
    const isStale = exchange.isReused && !this.#reader.begun && !isOurs && error.side === 'upstream'
    exchange.events.failed(error, isStale && isRepeatable(exchange.request) ? 'reused-connection' : 'never')
  }

  /** @throws ProxyError 502 when the response is not complete */
  #finish(): ResponseEvent | undefined {
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

/** One request and its response on one connection. */
class ClientExchange implements ContentConsumer, Flow {
  readonly request: UpstreamRequest
  readonly events: UpstreamEvents
  /** Whether the connection had carried a request before. */
  readonly isReused: boolean
  readonly writer: ContentWriter
  readonly #connection: Http1Connection
  /** Whether the last byte of the request was handed to the system. */
  isSent = false
  /** Whether content that still comes is thrown away. */
  isDropping = false
  paused = false
  /** Milliseconds that the connection may be idle behind this response. */
  idleMs = 0

  constructor(
    connection: Http1Connection,
    request: UpstreamRequest,
    events: UpstreamEvents,
    isReused: boolean,
  ) {
    this.#connection = connection
    this.request = request
    this.events = events
    this.isReused = isReused
    this.writer = contentWriter(request)
  }

  readonly onSent = (error?: Error | null): void => {
    if ((error !== undefined && error !== null) || !this.#connection.isCurrent(this)) return
    this.isSent = true
    this.events.sent()
  }

  drop(): void {
    if (this.isSent) return
    this.isDropping = true
    this.request.content?.resume()
  }

  data(chunk: Buffer): boolean {
    return this.#connection.writeContent(this, chunk)
  }

  end(trailers: Fields): void {
    this.#connection.endContent(this, trailers)
  }

  pause(): void {
    if (!this.#connection.isCurrent(this)) return
    this.paused = true
    this.#connection.pause()
  }

  resume(): void {
    if (!this.paused || !this.#connection.isCurrent(this)) return
    this.paused = false
    this.#connection.resume()
  }
}

/**
 * Whether a request may be sent a second time when its connection died without an answer: what it asks for is asked
 * for twice then, and none of its content may be gone (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
 */
export function isRepeatable({ method, content }: UpstreamRequest): boolean {
  return methodProperties(method).idempotent && (content === undefined || content.bytes === 0)
}

/** How long the connection may be idle: what we are willing to wait, and less than the origin is (RFC 9112 §9.3). */
function idleTime({ fields }: ReceivedHead, keepAliveMs: number): number {
  const hint = fields.value(FIELD['keep-alive'])
  const seconds = hint === undefined ? undefined : KEEP_ALIVE_TIMEOUT.exec(hint)?.[1]
  if (seconds === undefined) return keepAliveMs
  return Math.min(keepAliveMs, Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS)
}
