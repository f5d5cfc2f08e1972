/**
 * Sends requests with undici's Pool: one pool for each upstream that the configuration names.
 *
 * undici owns the connections, writes requests and parses responses. This file adds what undici lacks: a connection is
 * dialled with the permit of its request, a connection to an address that is no longer vetted is not reused, an idle
 * connection is checked before it is reused, and the head of a response must meet the rules of our own reader
 * (PooledConnection). Requests that undici cannot send, or that must not be sent twice, are not given to it
 * (OriginSender).
 *
 * The older interface for undici's handlers is used. The newer one is a layer on top of it that turns the fields of each
 * response into an object and does not report when a request has been written.
 */
import { channel } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { Dispatcher, Pool } from 'undici'
import { ProxyError, toProxyError } from '../errors.js'
import { FIELD } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { decideResponseFraming } from '../http1/body-framing.js'
import { MAX_INTERIM, type ReceivedHead, tooManyInterim, toUpstreamError } from '../http1/response-reader.js'
import type { Permit } from '../policy/permit.js'
import { KEEP_ALIVE_MARGIN_MS } from './http1-connection.js'
import type { SenderOptions } from './http1-sender.js'
import { MAX_IDLE_PER_KEY } from './pool.js'
import { type CarriedRequest, PooledConnection } from './pooled-connection.js'
import type { Cancel, Flow, UpstreamEvents, UpstreamRequest } from './sender.js'
import { isClosedByUs, isUnreadable, undiciFailure } from './undici-failures.js'

/** undici publishes here which socket a request is written to, right after it has called the handler's `onConnect`. */
const SEND_HEADERS = channel('undici:client:sendHeaders')

/** The origin that undici is given. It is never resolved or written: the dialler connects, and each request has a Host. */
const ANY_ORIGIN = 'http://upstream.invalid'

/**
 * Loads undici. This is done for the first upstream of a configuration only, as most have none. The pool alone is 22
 * modules and 13 MB of memory; undici's index would be 110 modules and 22 MB.
 */
export class Undici {
  readonly Pool: typeof Pool
  /** The request that is about to be written. */
  writing: UndiciExchange | undefined

  constructor() {
    this.Pool = createRequire(import.meta.url)('undici/lib/dispatcher/pool.js')
    SEND_HEADERS.subscribe(this.#onSendHeaders)
  }

  close(): void {
    SEND_HEADERS.unsubscribe(this.#onSendHeaders)
  }

  readonly #onSendHeaders = (message: unknown): void => {
    const exchange = this.writing
    this.writing = undefined
    exchange?.write((message as { readonly socket: Socket }).socket)
  }
}

const NO_TRAILERS: Fields = Object.freeze([])

/** undici had no connection for a request, and has sent nothing of it. */
class NotSent extends Error {}

/** Sends a request with another sender, after undici has failed it because of a response that it cannot parse. */
export type Resend = (request: UpstreamRequest, permit: Permit, events: UpstreamEvents) => Cancel

export class UndiciSender {
  readonly #options: SenderOptions
  readonly undici: Undici
  readonly resend: Resend
  readonly #pool: Pool
  readonly #connections = new Map<Socket, PooledConnection>()
  readonly #dials = new Set<AbortController>()
  #idle = 0
  /** The permit of the last request: connections to addresses that are not in it are not reused. */
  #permit: Permit | undefined
  #dispatching: UndiciExchange | undefined
  #retired = false

  constructor(options: SenderOptions, undici: Undici, resend: Resend) {
    this.#options = options
    this.undici = undici
    this.resend = resend
    this.#pool = new undici.Pool(ANY_ORIGIN, {
      connect: (_, connected) => this.#connect(connected as Connected),
      pipelining: 1,
      // The relay has timeouts of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      // undici counts only names and values, and refuses a head with exactly this many bytes.
      maxHeaderSize: options.headerBytes + 1,
    })
  }

  /**
   * Must not be called from the events of another request, as undici's parser is not reentrant.
   * @param request one that may be sent twice
   */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents): Cancel {
    const exchange = new UndiciExchange(this, request, permit, events)
    this.dispatch(exchange)
    return exchange.cancel
  }

  /**
   * Hands a request to undici. If there are idle connections, what has arrived on them must be read first: the end of
   * the connection, or unsolicited bytes, which would be taken for the response. undici waits until the next turn of
   * the event loop, which is too early if this turn has already polled for input (see Http1Sender). So undici gets the
   * request one turn later.
   */
  dispatch(exchange: UndiciExchange): void {
    if (this.#idle === 0) this.#dispatch(exchange)
    else setImmediate(this.#dispatch, exchange)
  }

  /** Whether this request is being handed to undici at this moment. */
  isDispatching(exchange: UndiciExchange): boolean {
    return this.#dispatching === exchange
  }

  readonly #dispatch = (exchange: UndiciExchange): void => {
    if (exchange.isOver) return
    const { request, permit } = exchange
    if (permit !== this.#permit) this.#closeUnvetted(permit)
    this.#dispatching = exchange
    this.#pool.dispatch(
      {
        method: request.method as Dispatcher.HttpMethod,
        path: request.path,
        headers: ['Host', request.host, ...request.fields],
      },
      exchange,
    )
    this.#dispatching = undefined
  }

  /** Marks the connection of a socket as the one that carries this request. */
  take(socket: Socket, exchange: UndiciExchange): PooledConnection {
    const connection = this.#connections.get(socket)
    if (connection === undefined) throw new TypeError('a socket that was not dialled here')
    connection.carry(exchange)
    this.#idle -= 1
    return connection
  }

  /** The exchange that the connection carried has ended; the connection may be closed already. */
  give(connection: PooledConnection): void {
    connection.release()
    this.#idle += 1
    if (connection.closesWhenIdle || this.#retired || this.#idle > MAX_IDLE_PER_KEY)
      connection.socket.destroy()
  }

  retire(): void {
    this.#retired = true
    for (const { isBusy, socket } of this.#connections.values()) if (!isBusy) socket.destroy()
  }

  close(): void {
    this.#retired = true
    for (const dial of this.#dials) dial.abort()
    this.#pool.destroy().catch(() => {})
  }

  /** Connections to addresses that the upstream's name no longer resolves to are not reused. */
  #closeUnvetted(permit: Permit): void {
    this.#permit = permit
    for (const connection of this.#connections.values()) {
      if (isVetted(permit, connection.address)) continue
      connection.closesWhenIdle = true
      if (!connection.isBusy) connection.socket.destroy()
    }
  }

  /**
   * undici asks for a connection. If it does so while a request is being dispatched, the connection is for that
   * request. It also does so later, for a request whose idle connection was closed before anything was sent. It does
   * not say for which request, but it reports the error to that request, which is then dispatched again.
   */
  #connect(connected: Connected): void {
    const exchange = this.#dispatching
    this.#dispatching = undefined
    if (exchange === undefined) {
      connected(new NotSent(), null)
      return
    }
    const dial = new AbortController()
    this.#dials.add(dial)
    exchange.dial = dial
    this.#options.dialer.connect(exchange.permit, dial.signal).then(
      dialled => {
        this.#dials.delete(dial)
        if (dial.signal.aborted) dialled.socket.destroy()
        else this.#add(new PooledConnection(dialled, this.#options.headerBytes))
        connected(null, dialled.socket)
      },
      (error: unknown) => {
        this.#dials.delete(dial)
        connected(error instanceof Error ? error : new Error(String(error)), null)
      },
    )
  }

  #add(connection: PooledConnection): void {
    const { socket, address } = connection
    // A later request may have had other addresses.
    connection.closesWhenIdle = this.#permit !== undefined && !isVetted(this.#permit, address)
    this.#connections.set(socket, connection)
    this.#idle += 1
    socket.once('close', () => {
      this.#connections.delete(socket)
      this.#idle -= 1
    })
  }
}

function isVetted({ addresses }: Permit, address: string): boolean {
  return addresses.some(({ text }) => text === address)
}

type Connected = (error: Error | null, socket: Socket | null) => void

/** One request given to undici, and its response. */
class UndiciExchange implements Flow, CarriedRequest {
  readonly request: UpstreamRequest
  readonly permit: Permit
  /** Cancels the dial of the connection that is opened for it. */
  dial: AbortController | undefined
  /** Once this is true, no further event is reported. */
  isOver = false
  readonly #sender: UndiciSender
  readonly #events: UpstreamEvents
  #connection: PooledConnection | undefined
  #isReused = false
  #interim = 0
  /** Whether undici is known not to be able to parse the final response. */
  #isUnreadable = false
  #responded = false
  /** For a 304 whose Content-Length is that of the selected representation (RFC 9110 §8.6): undici waits for the content. */
  #endsWithHead = false
  #paused = false
  #failure: ProxyError | undefined
  /** Set once there is a connection. */
  #abort: Cancel | undefined
  /** Cancels the request that was sent in place of this one. */
  #resent: Cancel | undefined
  #resume: (() => void) | undefined

  constructor(sender: UndiciSender, request: UpstreamRequest, permit: Permit, events: UpstreamEvents) {
    this.#sender = sender
    this.request = request
    this.permit = permit
    this.#events = events
  }

  readonly cancel: Cancel = () => {
    this.#resent?.()
    if (this.isOver) return
    this.#end()
    this.dial?.abort()
    this.#abort?.()
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (!this.isOver) this.#resume?.()
  }

  onConnect(abort: Cancel): void {
    // If its handler throws here, undici sends nothing and keeps the connection.
    if (this.isOver) throw new NotSent()
    this.#abort = abort
    this.#sender.undici.writing = this
  }

  /** The request is about to be written to this socket. */
  write(socket: Socket): void {
    const connection = this.#sender.take(socket, this)
    const { connectMs, where } = connection
    connection.connectMs = undefined
    this.#connection = connection
    this.#isReused = connectMs === undefined
    this.#events.connected(where, connectMs, false)
  }

  /** All of the request was written to the socket; `sent` is reported once the system has taken all of it. */
  onRequestSent(): void {
    const socket = this.#connection?.socket
    if (socket === undefined || this.isOver) return
    if (socket.writableLength === 0) this.#events.sent()
    else {
      socket.write('', error => {
        if ((error === undefined || error === null) && !this.isOver) this.#events.sent()
      })
    }
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    if (this.isOver) return true
    const head = this.#readHead(status, raw)
    if (head === undefined) return true
    if (status < 200) {
      // undici's parser accepts no further response after `Connection: close` (RFC 9112 §9.6).
      if (head.fields.connectionOptions.includes('close')) this.#isUnreadable = true
      this.#events.interim(head)
      return true
    }
    this.#responded = true
    this.#isUnreadable = false
    this.#resume = resume
    this.#events.responded(head, this)
    if (this.#endsWithHead) this.#endWithHead()
    return !this.#paused
  }

  #endWithHead(): void {
    if (this.isOver) return
    this.#end()
    this.#abort?.()
    this.#events.ended(NO_TRAILERS)
  }

  onData(chunk: Buffer): boolean {
    if (this.#connection !== undefined) this.#connection.bytesWithoutContent = 0
    if (!this.isOver) this.#events.data(chunk)
    return this.isOver || !this.#paused
  }

  onComplete(raw: readonly (string | Buffer)[] | null): void {
    if (this.isOver) return
    const socket = this.#connection?.socket
    // undici takes a reset for the end of content that is delimited by the end of the connection.
    const error = socket?.errored ?? undefined
    if (error !== undefined) {
      this.onError(error)
      return
    }
    const trailers =
      raw === null || raw.length === 0 ? NO_TRAILERS : this.#readTrailers(raw as readonly Buffer[])
    this.#end()
    // A recipient ignores Connection in a trailer section, but undici's parser would apply it to the next response.
    if (trailers !== NO_TRAILERS) socket?.destroy()
    if (trailers instanceof ProxyError) this.#events.failed(trailers, 'never')
    else this.#events.ended(trailers)
  }

  onError(error: Error): void {
    if (this.isOver) return
    if (error instanceof NotSent || this.#wasIdle(error)) {
      queueMicrotask(() => this.#sender.dispatch(this))
      return
    }
    const connection = this.#connection
    const failing = {
      where: connection?.where ?? '',
      hasBegun: connection?.hasBegun ?? false,
      hasResponded: this.#responded,
      hasEnded: connection?.socket.readableEnded ?? false,
    }
    this.#end()
    if (this.#failure === undefined && (this.#isUnreadable || isUnreadable(error, failing))) {
      this.#resent = this.#sender.resend(this.request, this.permit, this.#events)
      return
    }
    const failure = this.#failure ?? undiciFailure(error, failing)
    const isStale = this.#isReused && !failing.hasBegun && failure.side === 'upstream' && !isClosedByUs(error)
    this.#events.failed(failure, isStale ? 'reused-connection' : 'never')
  }

  refuse(error: unknown): void {
    this.#failure = toProxyError(toUpstreamError(error))
    this.#abort?.()
  }

  /** Whether the error is that of an idle connection which was about to be reused for this request: nothing was sent. */
  #wasIdle(error: Error): boolean {
    const hasNone = this.#connection === undefined && this.dial === undefined
    return hasNone && !isClosedByUs(error) && !this.#sender.isDispatching(this)
  }

  /** The head as our own reader would report it; undefined if it is refused. */
  #readHead(status: number, raw: readonly Buffer[]): ReceivedHead | undefined {
    const connection = this.#connection
    if (connection === undefined) return undefined
    try {
      const { minor, reason, bytes } = connection.statusLine(status)
      if (status < 200 && ++this.#interim > MAX_INTERIM) {
        throw tooManyInterim()
      }
      const fields = connection.fields(raw, bytes)
      const { framing, contentLength } = decideResponseFraming(
        { method: this.request.method, upgrade: false },
        status,
        minor,
        fields,
      )
      connection.bytesWithoutContent = 0
      this.#endsWithHead = framing === 'none' && contentLength !== undefined && contentLength > 0
      return { status, minor, reason, fields, contentLength }
    } catch (error) {
      this.refuse(error)
      return undefined
    }
  }

  /** Trailers that contradict the framing fail the response, as they do in our own reader. */
  #readTrailers(raw: readonly Buffer[]): Fields | ProxyError {
    try {
      const section = this.#connection?.fields(raw, 0)
      if (section?.has(FIELD['content-length']) || section?.has(FIELD['transfer-encoding'])) {
        return new ProxyError('http_protocol_error', 'field not allowed in trailers in a response')
      }
      return section?.list ?? []
    } catch (error) {
      return toProxyError(toUpstreamError(error))
    }
  }

  #end(): void {
    this.isOver = true
    if (this.#connection !== undefined) this.#sender.give(this.#connection)
  }
}
