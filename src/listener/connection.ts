/**
 * The HTTP/1.1 connection of a client: runs the codec on a socket (RFC 9112 §9).
 *
 * Requests are read one after another and answered in order. While one is unanswered, the bytes after it wait in a
 * limited buffer and are not parsed, so that an error in them cannot overtake the response that is due.
 */
import type { Socket } from 'node:net'
import { type ProxyError, toProxyError } from '../errors.js'
import type { RequestFacts, Switched } from '../exchange.js'
import { isPersistent } from '../http/connection.js'
import type { Fields } from '../http/fields.js'
import { ConnectionState } from '../http1/connection-state.js'
import type { HeadLimits } from '../http1/byte-queue.js'
import { OtherProtocol } from '../http1/other-protocol.js'
import { type RequestEvent, type RequestHead, RequestReader } from '../http1/request-reader.js'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import { handleData, handleEvents, NOBODY, SocketHandler } from '../net/socket-handler.js'
import type { CloseReason } from '../outcome.js'
import type { ReceivedExchange } from '../pipeline/admitted-exchange.js'
import { classify } from '../pipeline/classify.js'
import { errorResponse } from '../pipeline/error-page.js'
import { type Awaited, responseTimedOut, timedOut, tooSlow } from './deadline.js'
import {
  type ConnectedClient,
  ConnectionExchange,
  type ContentLimits,
  type RequestConnection,
} from './exchange.js'
import { type ResponseEvents, ResponseOutput } from './output.js'

export interface ConnectionLimits extends HeadLimits, ContentLimits {
  /** Milliseconds for a request head to be received, from its first byte or from the start of the connection. */
  readonly headerTimeoutMs: number
  /** Milliseconds that a connection may be idle between requests. */
  readonly keepaliveIdleMs: number
}

/** The settings of a connection: replaced as a whole by a reload. */
export interface ConnectionSettings {
  readonly limits: ConnectionLimits
  /** Methods that are accepted in addition to the nine standard ones. */
  readonly extraMethods: readonly string[]
  /** The operator's line in every error response. */
  readonly errorNote?: string | undefined
  /** Whether the whole proxy drains: responses then announce the end of the connection. */
  readonly draining: boolean
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly date: () => string
  readonly nextId: () => string
  /** Called for each request with a valid head; the response is sent through the exchange. */
  readonly serve: (exchange: ReceivedExchange) => void
}

/** The events of a connection. */
export interface ConnectionEvents {
  /** A request was malformed and never became an exchange; method and target are as far as they were read. */
  malformed(clientAddress: string, method: string, target: string, error: ProxyError): void
  /** The connection is closed, or no longer HTTP. */
  released(connection: Connection): void
}

/** Bytes that may wait after an unanswered request or for a slow upstream before reading from the socket pauses. */
const MAX_BUFFERED_BYTES = 64 * 1024
/** How long a client may take to close its side after it was sent everything. */
const LINGER_MS = 5000
/** The most bytes that are read and discarded during that time. */
const MAX_LINGER_BYTES = 16 * 1024 * 1024

export class Connection extends SocketHandler implements RequestConnection, ResponseEvents {
  index = NOT_INDEXED
  readonly client: ConnectedClient
  readonly encrypted: boolean
  readonly output: ResponseOutput
  readonly #socket: Socket
  readonly #events: ConnectionEvents
  readonly #reader: RequestReader
  readonly #state = new ConnectionState()
  #settings: ConnectionSettings
  #exchange: ConnectionExchange | undefined
  /** Whether the close of the last exchange was reported to the observers; the next request waits for that. */
  isReported = true
  /**
   * What the connection waits for, and until when: milliseconds, monotonic. There is no timer; the server checks the
   * deadlines of all connections at short intervals.
   */
  #awaited: Awaited = 'none'
  #deadline = 0
  #advancing = false
  #stalled = false
  /** The last response was sent; what the client still sends is discarded (RFC 9112 §9.6). */
  #lingering = false
  #discarded = 0

  constructor(
    socket: Socket,
    client: ConnectedClient,
    settings: ConnectionSettings,
    events: ConnectionEvents,
  ) {
    super()
    this.#socket = socket
    this.client = client
    this.encrypted = 'encrypted' in socket
    this.#settings = settings
    this.#events = events
    this.#reader = new RequestReader(settings.limits)
    this.output = new ResponseOutput(socket, this.#state, this)
    this.#await('head', settings.limits.headerTimeoutMs)
    handleEvents(socket, this)
    handleData(socket)
  }

  /** Replaces the settings for everything read and answered from now on, except the limits of heads. */
  configure(settings: ConnectionSettings): void {
    this.#settings = settings
  }

  /** Ends whatever has run out of time; the server calls it at short intervals. */
  checkDeadline(now: number): void {
    const late = now < this.#deadline ? 'none' : this.#awaited
    if (late !== 'none') this.#awaited = 'none'
    switch (late) {
      case 'head':
        if (this.#reader.inHead) this.refuseUnread(timedOut('head'))
        else this.#socket.destroy()
        return
      case 'content':
        this.#exchange?.fail(timedOut('content'))
        return
      case 'keepalive':
        this.#close()
        return
      case 'write':
      case 'linger':
        this.#exchange?.fail(responseTimedOut(), 'idle')
        this.destroy()
        return
      case 'none': {
        const { limits } = this.#settings
        if (this.#exchange?.content.isTooSlow(now, limits)) this.#exchange.fail(tooSlow(limits.bodyMinRate))
      }
    }
  }

  /**
   * Closes the connection when it is idle; otherwise the current response is its last. A request whose head is being
   * received is still answered if the whole proxy drains.
   */
  drain(): void {
    if (this.#state.request !== 'idle') this.output.mustClose()
    else if (!this.#reader.inHead || !this.#settings.draining) this.#close()
  }

  /** @param reason the close reason to report for an exchange in progress; otherwise `client_gone` is reported */
  destroy(reason?: CloseReason): void {
    if (reason !== undefined) this.#exchange?.gone(reason)
    this.output.destroy()
  }

  /** Sends an error and closes the connection when no request head was read to its end. */
  refuseUnread(error: ProxyError): void {
    const { method, target } = this.#reader.partial
    if (this.#state.request === 'idle') this.#state.onRequest('broken')
    this.output.begin({ method, minor: 1, persistent: false })
    this.#events.malformed(this.client.address, method, target, error)
    if (error instanceof OtherProtocol) this.output.otherProtocol(error.answer)
    else this.refuse(error, method)
  }

  // --- calls from its exchange ---

  contentWanted(): void {
    if (this.#exchange === undefined || this.#exchange.aborted !== undefined) return
    if (this.#awaited !== 'write') this.#await('content', this.#settings.limits.bodyIdleMs)
    this.advance()
  }

  /** Reads and serves as many of the received bytes as are wanted. */
  advance(): void {
    // After the socket was destroyed no response could be sent.
    if (this.#advancing || this.#socket.destroyed) return
    this.#advancing = true
    try {
      while (!this.#lingering && this.#isReading) {
        // A client that does not read responses must not queue further ones by sending more requests.
        if (this.#state.request === 'idle' && this.output.congested) {
          this.#stall()
          break
        }
        const event = this.#reader.next()
        if (event === undefined) {
          if (this.#awaited !== 'head' && this.#reader.inHead) {
            this.#await('head', this.#settings.limits.headerTimeoutMs)
          }
          break
        }
        if (event.type === 'head') this.#begin(event.head)
        else if (this.#exchange !== undefined) this.#deliver(event, this.#exchange)
      }
    } catch (error) {
      this.#broken(toProxyError(error))
    }
    this.#advancing = false
    if (this.#reader.input.length > MAX_BUFFERED_BYTES || this.#socket.isPaused()) this.#adjustReading()
  }

  /** Sends an error response; the connection persists only if the request was read to its end. */
  refuse(error: ProxyError, method: string, hint?: string): void {
    const { output } = this
    if (this.#state.response !== 'owed') {
      this.aborted()
      return
    }
    // The end of a CONNECT is read only here, when no tunnel follows but possibly another request.
    if (error.status === 407 && method === 'CONNECT' && this.#reader.input.length === 0) {
      this.#reader.next()
      this.#state.onRequest('end')
    }
    if (error.close || this.#state.request !== 'done') output.mustClose()
    const { date, errorNote: note } = this.#settings
    const { head, body } = errorResponse(error, date(), { hint, note })
    output.answer(head, body)
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched {
    const socket = this.#socket
    this.output.switching(status, reason, fields, upgrade)
    this.#exchange = undefined
    this.#awaited = 'none'
    handleEvents(socket, NOBODY)
    this.#events.released(this)
    return { socket, rest: this.#reader.takeRest() }
  }

  // --- events of its output ---

  congested(): void {
    this.#await('write', this.#settings.limits.bodyIdleMs)
  }

  responded(): void {
    this.#exchange = undefined
    if (this.#state.request !== 'done' || this.output.closes) this.#close()
    else {
      this.#state.onRequest('next')
      this.#state.onResponse('next')
      this.#await('keepalive', this.#settings.limits.keepaliveIdleMs)
      if (this.isReported) this.advance()
    }
  }

  aborted(): void {
    this.output.flush()
    this.#exchange = undefined
    this.destroy()
  }

  // --- events of its socket ---

  override onData(chunk: Buffer): void {
    if (this.#lingering) {
      this.#discarded += chunk.length
      if (this.#discarded > MAX_LINGER_BYTES) this.#socket.destroy()
    } else {
      this.#reader.input.push(chunk)
      this.advance()
    }
  }

  /** After a FIN while a response is due, nobody is there to read it; otherwise all work is done. */
  override onEnd(): void {
    if (this.#exchange === undefined) this.#close()
    else {
      // Not only on the close event of the socket: until then an upstream could be connected and a tunnel opened.
      this.#exchange.gone()
      this.#socket.destroy()
    }
  }

  override onDrain(): void {
    if (this.#awaited === 'write' && !this.#lingering) this.#resumeDeadline()
    this.output.drained()
  }

  override onError(): void {
    this.#socket.destroy()
  }

  override onClose(): void {
    this.#awaited = 'none'
    this.#exchange?.gone()
    this.#exchange = undefined
    this.client.slot.release()
    this.#events.released(this)
  }

  /** Whether received bytes are to be parsed now. */
  get #isReading(): boolean {
    const { request } = this.#state
    if (request === 'content') return this.#exchange?.content.flowing === true
    return request === 'idle' && this.isReported && !this.#stalled && this.#reader.input.length > 0
  }

  #begin(head: RequestHead): void {
    const { draining, extraMethods, nextId, serve } = this.#settings
    this.#awaited = 'none'
    this.#state.onRequest('head')
    const persistent = !draining && isPersistent(head.fields, head.minor, 'client')
    this.output.begin({ method: head.method, minor: head.minor, persistent })
    // A request without content ends with its head, except CONNECT, after which a tunnel may follow.
    if (head.framing.kind === 'none' && head.method !== 'CONNECT') {
      this.#reader.next()
      this.#state.onRequest('end')
    }
    let facts: RequestFacts
    try {
      facts = classify(head, extraMethods)
    } catch (error) {
      const refusal = toProxyError(error)
      this.#events.malformed(this.client.address, head.method, head.target, refusal)
      this.refuse(refusal, head.method)
      return
    }
    this.#exchange = new ConnectionExchange(this, nextId(), head, facts)
    this.isReported = false
    serve(this.#exchange)
  }

  #deliver(event: RequestEvent, { content }: ConnectionExchange): void {
    if (event.type === 'data') {
      content.deliver(event.chunk)
      if (this.#awaited !== 'write') this.#resumeDeadline()
    } else if (event.type === 'end') {
      if (this.#awaited !== 'write') this.#awaited = 'none'
      this.#state.onRequest('end')
      content.deliverEnd(event.trailers)
    }
  }

  /** Invalid bytes were read: the current exchange fails, or if there is none they are answered with an error. */
  #broken(error: ProxyError): void {
    this.#state.onRequest('broken')
    if (this.#exchange !== undefined) this.#exchange.fail(error)
    else this.refuseUnread(error)
  }

  /** @param ms from now */
  #await(awaited: Awaited, ms: number): void {
    this.#awaited = awaited
    this.#deadline = this.#settings.now() + ms
  }

  #adjustReading(): void {
    if (this.#state.response === 'switched') return
    const isWanted = this.#isReading || this.#lingering
    if (!isWanted && this.#reader.input.length > MAX_BUFFERED_BYTES) this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  /** Holds the next request back until the client has received the responses to the previous ones. */
  #stall(): void {
    this.#stalled = true
    this.#await('write', this.#settings.limits.bodyIdleMs)
    this.output.onDrain(() => {
      this.#stalled = false
      this.advance()
    })
  }

  /** Sets the deadline for what is waited for once the client has received what was written. */
  #resumeDeadline(): void {
    const { bodyIdleMs, keepaliveIdleMs } = this.#settings.limits
    if (this.#exchange?.content.flowing === true) this.#await('content', bodyIdleMs)
    else if (this.#state.request === 'idle') this.#await('keepalive', keepaliveIdleMs)
    else this.#awaited = 'none'
  }

  /**
   * Closes the connection after everything written was sent. If the client may still be sending, its data are read
   * until it closes its side, within limits, so that it receives the response and not a reset (RFC 9112 §9.6).
   */
  #close(): void {
    if (this.#lingering) return
    const isIdle = this.#state.request === 'idle' && !this.#reader.inHead
    this.output.flush()
    this.#await('write', this.#settings.limits.bodyIdleMs)
    this.#lingering = true
    // The callback runs when everything, including the FIN, was sent.
    this.#socket.end(() => {
      if (isIdle) this.#socket.destroy()
      else this.#await('linger', LINGER_MS)
    })
    this.#adjustReading()
  }
}
