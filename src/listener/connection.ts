/**
 * One client connection: the codec driven on a socket (RFC 9112 §9).
 *
 * Requests are read one after another and answered in order; while one is unanswered the bytes behind it wait in a
 * bounded buffer and are not parsed, so that an error in them cannot overtake an answer that is owed.
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
import { type Awaited, notTaken, timedOut, tooSlow } from './deadline.js'
import {
  type ConnectedClient,
  ConnectionExchange,
  type ContentLimits,
  type RequestConnection,
} from './exchange.js'
import { type ResponseEvents, ResponseOutput } from './output.js'

export interface ConnectionLimits extends HeadLimits, ContentLimits {
  /** Milliseconds for a request head to arrive, from its first byte, or from the start of the connection. */
  readonly headerTimeoutMs: number
  /** Milliseconds that a connection may wait for its next request. */
  readonly keepaliveIdleMs: number
}

/** What a connection goes by: replaced as a whole. */
export interface ConnectionSettings {
  readonly limits: ConnectionLimits
  /** Methods beside the nine that are let through. */
  readonly extraMethods: readonly string[]
  /** The operator's line for every error response. */
  readonly errorNote?: string | undefined
  /** Whether the whole proxy drains: responses have to say that the connection ends. */
  readonly draining: boolean
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly date: () => string
  readonly nextId: () => string
  /** Gets each request whose head is in order; it is answered through the exchange. */
  readonly serve: (exchange: ReceivedExchange) => void
}

/** What comes of a connection. */
export interface ConnectionEvents {
  /** A request that is none and so never became an exchange: both texts as far as they were read, and its answer. */
  malformed(clientAddress: string, method: string, target: string, error: ProxyError): void
  /** The connection is closed, or is not HTTP any more. */
  released(connection: Connection): void
}

/** Bytes that may wait behind an unanswered request or a slow upstream before the socket is no longer read. */
const MAX_BUFFERED_BYTES = 64 * 1024
/** How long a client may take to close its side once it has been sent everything. */
const LINGER_MS = 5000
/** What is read and discarded of it meanwhile, at most. */
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
  /** Whether what became of the last exchange has been reported: the next request waits for that, too. */
  isReported = true
  /**
   * The one thing that is waited for now, and until when: milliseconds, monotonic. There is no timer behind it: whoever
   * keeps the connections checks all of them now and then.
   */
  #awaited: Awaited = 'none'
  #deadline = 0
  #advancing = false
  #stalled = false
  /** The last answer is given: what the client still sends is discarded (RFC 9112 §9.6). */
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

  /** For what is read and answered from now on; the head limits are those that it began with. */
  configure(settings: ConnectionSettings): void {
    this.#settings = settings
  }

  /** Ends what has run out of time; called often with the current time. */
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
        this.#exchange?.fail(notTaken(), 'idle')
        this.destroy()
        return
      case 'none': {
        const { limits } = this.#settings
        if (this.#exchange?.content.isTooSlow(now, limits)) this.#exchange.fail(tooSlow(limits.bodyMinRate))
      }
    }
  }

  /**
   * Ends the connection when it is idle; otherwise the answer under way is its last. A request whose head is on its way
   * is answered yet where the whole proxy drains.
   */
  drain(): void {
    if (this.#state.request !== 'idle') this.output.mustClose()
    else if (!this.#reader.inHead || !this.#settings.draining) this.#close()
  }

  /** @param reason for what is logged of an answer under way; without it the client is gone */
  destroy(reason?: CloseReason): void {
    if (reason !== undefined) this.#exchange?.gone(reason)
    this.output.destroy()
  }

  /** Answers, and ends the connection, before a request was read to the end of its head, or at all. */
  refuseUnread(error: ProxyError): void {
    const { method, target } = this.#reader.partial
    if (this.#state.request === 'idle') this.#state.onRequest('broken')
    this.output.begin({ method, minor: 1, persistent: false })
    this.#events.malformed(this.client.address, method, target, error)
    if (error instanceof OtherProtocol) this.output.otherProtocol(error.answer)
    else this.refuse(error, method)
  }

  // --- what its exchange asks for ---

  contentWanted(): void {
    if (this.#exchange === undefined || this.#exchange.aborted !== undefined) return
    if (this.#awaited !== 'write') this.#await('content', this.#settings.limits.bodyIdleMs)
    this.advance()
  }

  /** Reads and serves as much as is wanted of what has come. */
  advance(): void {
    // Of a socket that is destroyed nobody is there to be answered.
    if (this.#advancing || this.#socket.destroyed) return
    this.#advancing = true
    try {
      while (!this.#lingering && this.#isReading) {
        // Answers that the client does not take would pile up behind the requests that it goes on to send.
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

  /** Answers with an error; the connection survives only a request that was read to its end. */
  refuse(error: ProxyError, method: string, hint?: string): void {
    const { output } = this
    if (this.#state.response !== 'owed') {
      this.aborted()
      return
    }
    // A CONNECT is read to its end only when it turns out that no tunnel follows, and the next request may.
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

  // --- what its output notifies it of ---

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

  // --- what its socket notifies it of ---

  override onData(chunk: Buffer): void {
    if (this.#lingering) {
      this.#discarded += chunk.length
      if (this.#discarded > MAX_LINGER_BYTES) this.#socket.destroy()
    } else {
      this.#reader.input.push(chunk)
      this.advance()
    }
  }

  /** A FIN while an answer is owed means that nobody is there to read it; otherwise there is nothing more to do. */
  override onEnd(): void {
    if (this.#exchange === undefined) this.#close()
    else {
      // Not only when the socket says that it is closed: by then an upstream may have been found, and a tunnel begun.
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

  /** Whether anything is wanted of what has come, or comes next. */
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
    // A request without content ends with its head, unless a tunnel may follow.
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

  /** What was read is not HTTP: it ends the exchange it belongs to, or is answered in its own right. */
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

  /** Holds the next request back until the client has taken the answers to those before it. */
  #stall(): void {
    this.#stalled = true
    this.#await('write', this.#settings.limits.bodyIdleMs)
    this.output.onDrain(() => {
      this.#stalled = false
      this.advance()
    })
  }

  /** Times what is waited for, once that is not the client taking what was written. */
  #resumeDeadline(): void {
    const { bodyIdleMs, keepaliveIdleMs } = this.#settings.limits
    if (this.#exchange?.content.flowing === true) this.#await('content', bodyIdleMs)
    else if (this.#state.request === 'idle') this.#await('keepalive', keepaliveIdleMs)
    else this.#awaited = 'none'
  }

  /**
   * Ends the connection behind what was written. A client that may still be sending is read from until it closes its
   * side, within bounds, so that it sees the answer and not a reset (RFC 9112 §9.6).
   */
  #close(): void {
    if (this.#lingering) return
    const isIdle = this.#state.request === 'idle' && !this.#reader.inHead
    this.output.flush()
    this.#await('write', this.#settings.limits.bodyIdleMs)
    this.#lingering = true
    // Called when it has been sent everything, the FIN too.
    this.#socket.end(() => {
      if (isIdle) this.#socket.destroy()
      else this.#await('linger', LINGER_MS)
    })
    this.#adjustReading()
  }
}
