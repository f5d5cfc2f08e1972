/**
 * One client connection: the codec driven on a socket (RFC 9112 §9).
 *
 * Requests are read one after another and answered in order; while one is unanswered the bytes behind it wait in a
 * bounded buffer and are not looked at, so that an error in them can not overtake an answer that is owed. When the
 * connection has to end while the client may still be sending, it is read from and thrown away for a while, so that
 * the client sees the answer and not a reset (RFC 9112 §9.6).
 */
import type { Socket } from 'node:net'
import { malformed, type ProxyError, toProxyError } from '../errors.js'
import type { RequestFacts, ResponseContent, Switched } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import { wantsPersistence } from '../http/connection.js'
import { ConnectionState } from '../http1/connection-state.js'
import type { HeadLimits } from '../http1/head-limits.js'
import { type RequestEvent, type RequestHead, RequestReader } from '../http1/request-reader.js'
import { type ResponseHead, ResponseWriter } from '../http1/response-writer.js'
import { classify } from './classify.js'
import { ConnectionExchange } from './connection-exchange.js'
import { Output } from './output.js'
import { errorResponse } from './respond.js'

export interface ConnectionLimits extends HeadLimits {
  /** Milliseconds for a request head to arrive, from its first byte, or from the start of the connection. */
  readonly headerTimeoutMs: number
  /** Longest pause in request content, and longest time a client may take nothing of a response. */
  readonly bodyIdleMs: number
  /** Milliseconds that a connection may wait for its next request. */
  readonly keepaliveIdleMs: number
}

/** What a connection needs of the server it belongs to. */
export interface ConnectionOwner {
  readonly limits: ConnectionLimits
  /** Milliseconds, monotonic. */
  now(): number
  date(): string
  nextId(): string
  /** A request whose head is in order; it is answered through the exchange. */
  serve(exchange: ConnectionExchange): void
  /** A request that never became an exchange, and what it was answered with. */
  refused(connection: Connection, method: string, target: string, error: ProxyError): void
  /** The connection is closed, or is not HTTP any more. */
  released(connection: Connection): void
  /** Whether responses have to say that the connection ends. */
  readonly draining: boolean
}

type Deadline = 'none' | 'head' | 'keepalive' | 'content' | 'write' | 'linger'

/** Bytes that may wait behind an unanswered request or a slow upstream before the socket is no longer read. */
const MAX_BUFFERED_BYTES = 64 * 1024
const LINGER_MS = 5000
/** What a lingering connection reads and throws away at most. */
const MAX_LINGER_BYTES = 16 * 1024 * 1024

export class Connection {
  readonly clientAddress: string
  readonly clientPort: number
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  readonly #reader: RequestReader
  readonly #state = new ConnectionState()
  readonly #output: Output
  #writer = new ResponseWriter({ method: '', minor: 1, persistent: false })
  #exchange: ConnectionExchange | undefined
  #advancing = false
  #lingering = false
  #lingered = 0
  #deadline: Deadline = 'none'
  #deadlineAt = Number.POSITIVE_INFINITY
  #drainCallbacks: (() => void)[] = []

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket
    this.#owner = owner
    this.clientAddress = socket.remoteAddress ?? ''
    this.clientPort = socket.remotePort ?? 0
    this.#reader = new RequestReader(owner.limits)
    this.#output = new Output(socket)
    this.#setDeadline('head', owner.limits.headerTimeoutMs)
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', this.#onError)
    socket.on('close', this.#onClose)
  }

  /** Ends what has run out of time; called often with the current time. */
  checkDeadline(now: number): void {
    if (now < this.#deadlineAt) return
    const kind = this.#deadline
    this.#setDeadline('none', 0)
    switch (kind) {
      case 'none':
        return
      case 'head':
        if (this.#reader.inHead) this.#refuseUnread(timedOut('request head'))
        else this.#socket.destroy()
        return
      case 'content':
        this.#exchange?.fail(timedOut('request content'))
        return
      case 'keepalive':
        this.#close()
        return
      case 'write':
      case 'linger':
        this.#socket.destroy()
        return
    }
  }

  /** Ends the connection when it is idle; otherwise the answer under way is its last. */
  drain(): void {
    if (this.#state.request === 'idle' && !this.#reader.inHead) this.#close()
    else this.#writer.mustClose()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  // --- what the exchange asks for ---

  inform(status: number, reason: string, fields: Fields): void {
    this.#state.onResponse('interim')
    this.#output.write(this.#writer.interim(status, reason, fields))
  }

  respond(head: ResponseHead, content: ResponseContent): ResponseContent {
    this.#state.onResponse('head')
    const unread = this.#state.request !== 'done'
    if (this.#owner.draining || (unread && head.status >= 400)) this.#writer.mustClose()
    this.#output.write(this.#writer.head(head))
    return content
  }

  write(chunk: Uint8Array): boolean {
    if (!this.#writer.hasContent || chunk.length === 0) return true
    this.#output.write(this.#writer.beforeData(chunk.length))
    this.#output.write(chunk)
    this.#output.write(this.#writer.afterData)
    if (!this.#output.congested) return true
    this.#setDeadline('write', this.#owner.limits.bodyIdleMs)
    return false
  }

  onDrain(callback: () => void): void {
    this.#drainCallbacks.push(callback)
    this.#output.flush()
    if (!this.#socket.writableNeedDrain) queueMicrotask(this.#onDrain)
  }

  end(trailers: Fields): void {
    this.#output.write(this.#writer.end(trailers))
    this.#state.onResponse('end')
    this.#exchange = undefined
    if (this.#state.request !== 'done' || this.#writer.closes) this.#close()
    else {
      this.#state.onRequest('next')
      this.#state.onResponse('next')
      this.#setDeadline('keepalive', this.#owner.limits.keepaliveIdleMs)
      this.#advance()
    }
  }

  abort(): void {
    this.#output.flush()
    this.#exchange = undefined
    // The end of the connection would be the end of the content: only a reset tells the client otherwise.
    if (this.#writer.untilClose) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched {
    this.#state.onResponse('switch')
    this.#output.write(this.#writer.switchingHead(status, reason, fields, upgrade))
    this.#output.flush()
    this.#exchange = undefined
    this.#setDeadline('none', 0)
    const socket = this.#socket
    socket.pause()
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('error', this.#onError)
    socket.off('close', this.#onClose)
    this.#owner.released(this)
    return { socket, rest: this.#reader.takeRest() }
  }

  /** Answers the exchange with an error; the connection survives only a request that was read to its end. */
  refuse(error: ProxyError, method: string): void {
    if (this.#state.response !== 'owed') {
      this.abort()
      return
    }
    if (error.close || method === 'CONNECT' || this.#state.request !== 'done') this.#writer.mustClose()
    const { head, body } = errorResponse(error, this.#owner.date())
    this.respond(head, NO_CONTENT)
    this.write(body)
    this.end([])
  }

  /** The exchange can take more content, or takes it for the first time. */
  contentWanted(): void {
    this.#setDeadline('content', this.#owner.limits.bodyIdleMs)
    this.#advance()
  }

  // --- what the socket does ---

  readonly #onData = (chunk: Buffer): void => {
    if (this.#lingering) {
      this.#lingered += chunk.length
      if (this.#lingered > MAX_LINGER_BYTES) this.#socket.destroy()
      return
    }
    this.#reader.push(chunk)
    this.#advance()
  }

  /** A FIN while an answer is owed means that nobody is there to read it; otherwise there is nothing more to do. */
  readonly #onEnd = (): void => {
    if (this.#exchange !== undefined) this.#socket.destroy()
    else this.#socket.end()
  }

  readonly #onDrain = (): void => {
    if (this.#deadline === 'write') this.#setDeadline('none', 0)
    for (const callback of this.#drainCallbacks.splice(0)) callback()
  }

  readonly #onError = (): void => {
    this.#socket.destroy()
  }

  readonly #onClose = (): void => {
    this.#setDeadline('none', 0)
    const exchange = this.#exchange
    this.#exchange = undefined
    exchange?.gone()
    this.#owner.released(this)
  }

  // --- reading ---

  #advance(): void {
    if (this.#advancing) return
    this.#advancing = true
    try {
      while (!this.#lingering && this.#step()) {}
    } catch (error) {
      this.#broken(toProxyError(error))
    }
    this.#advancing = false
    this.#adjustReading()
  }

  /** @returns false when nothing can be done until more bytes come or the answer is complete */
  #step(): boolean {
    switch (this.#state.request) {
      case 'idle': {
        const event = this.#reader.next()
        if (event?.type === 'head') this.#begin(event.head)
        else if (this.#deadline !== 'head' && this.#reader.inHead) {
          this.#setDeadline('head', this.#owner.limits.headerTimeoutMs)
        }
        return event !== undefined
      }
      case 'content': {
        const exchange = this.#exchange
        if (exchange === undefined || !exchange.flowing) return false
        const event = this.#reader.next()
        if (event !== undefined) this.#deliver(event, exchange)
        return event !== undefined
      }
      case 'done':
      case 'broken':
        return false
    }
  }

  #begin(head: RequestHead): void {
    this.#setDeadline('none', 0)
    this.#state.onRequest('head')
    this.#state.onResponse('owe')
    const persistent = !this.#owner.draining && wantsPersistence(head.fields, head.minor)
    this.#writer = new ResponseWriter({ method: head.method, minor: head.minor, persistent })
    if (head.framing.kind === 'none' && head.method !== 'CONNECT') {
      this.#reader.next()
      this.#state.onRequest('end')
    }
    let facts: RequestFacts
    try {
      facts = classify(head)
    } catch (error) {
      const refusal = toProxyError(error)
      this.#owner.refused(this, head.method, head.target, refusal)
      this.refuse(refusal, head.method)
      return
    }
    const exchange = new ConnectionExchange(this, this.#owner.nextId(), head, facts)
    this.#exchange = exchange
    this.#owner.serve(exchange)
  }

  #deliver(event: RequestEvent, exchange: ConnectionExchange): void {
    if (event.type === 'data') {
      exchange.deliver(event.chunk)
      if (exchange.flowing) this.#setDeadline('content', this.#owner.limits.bodyIdleMs)
      else this.#setDeadline('none', 0)
    } else if (event.type === 'end') {
      this.#setDeadline('none', 0)
      this.#state.onRequest('end')
      exchange.deliverEnd(event.trailers)
    }
  }

  /** What was read is not HTTP: it ends the exchange it belongs to, or is answered in its own right. */
  #broken(error: ProxyError): void {
    this.#state.onRequest('broken')
    if (this.#exchange !== undefined) this.#exchange.fail(error)
    else this.#refuseUnread(error)
  }

  #refuseUnread(error: ProxyError): void {
    const { method, target } = this.#reader.partial
    this.#state.onResponse('owe')
    if (this.#state.request === 'idle') this.#state.onRequest('broken')
    this.#writer = new ResponseWriter({ method, minor: 1, persistent: false })
    this.#owner.refused(this, method, target, error)
    this.refuse(error, method)
  }

  #adjustReading(): void {
    if (this.#state.response === 'switched') return
    const wanted = this.#exchange?.flowing === true || this.#state.request === 'idle' || this.#lingering
    if (!wanted && this.#reader.buffered > MAX_BUFFERED_BYTES) this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  // --- ending ---

  #close(): void {
    if (this.#lingering) return
    this.#lingering = true
    this.#output.flush()
    this.#socket.end()
    this.#setDeadline('linger', LINGER_MS)
    this.#adjustReading()
  }

  #setDeadline(kind: Deadline, ms: number): void {
    this.#deadline = kind
    this.#deadlineAt = kind === 'none' ? Number.POSITIVE_INFINITY : this.#owner.now() + ms
  }
}

const NO_CONTENT: ResponseContent = { write: () => true, onDrain: () => {}, end: () => {}, abort: () => {} }

function timedOut(what: string): ProxyError {
  return malformed(`${what} not received in time`, 408, 'request_timeout')
}
