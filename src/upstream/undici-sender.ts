/**
 * Sends requests with undici's Pool, one for an upstream that the configuration names.
 *
 * undici owns the connections, the request on the wire and the reading of its response. What it does not know is
 * added: each connection is dialled with the permit of the request that it is for, one to an address that is no longer
 * vetted is not used again, one that was idle is looked at before it is used, and the head of a response is held to the
 * rules of our own reader (PooledConnection). What undici cannot send, or what may not be sent twice, is not given to it
 * (OriginSender).
 *
 * The older interface of its handlers is used: the newer one is a layer on that, which makes an object of the fields of
 * each response and is not notified when a request has been written.
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
import { type Carried, PooledConnection } from './pooled-connection.js'
import type { Cancel, Flow, UpstreamEvents, UpstreamRequest } from './sender.js'
import { isOurs, isUnreadable, undiciFailure } from './undici-failures.js'

/** Where undici publishes which socket a request is written to, right after its handler was notified of the connection. */
const SEND_HEADERS = channel('undici:client:sendHeaders')

/** What undici calls the upstream: neither resolved nor written, as the dialler connects and each request has its Host. */
const ANY_ORIGIN = 'http://upstream.invalid'

/**
 * undici, loaded when the first upstream is made, which few configurations have. Its pool alone is 22 modules and 13 MB
 * of memory; its index would load 110 and 22 MB.
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

/** undici had no connection for a request after all, and nothing of it was sent. */
class NotSent extends Error {}

/** Sends a request in another way, after undici has ended it because of a response that it does not read. */
export type Resend = (request: UpstreamRequest, permit: Permit, events: UpstreamEvents) => Cancel

export class UndiciSender {
  readonly #options: SenderOptions
  readonly undici: Undici
  readonly resend: Resend
  readonly #pool: Pool
  readonly #connections = new Map<Socket, PooledConnection>()
  readonly #dials = new Set<AbortController>()
  #idle = 0
  /** Of the last request: what its addresses leave out is not used again. */
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
      // The relay has clocks of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      // Names and values alone, and so many are too many.
      maxHeaderSize: options.headerBytes + 1,
    })
  }

  /**
   * Not to be called by the events of another request, as undici's parser cannot be entered twice.
   * @param request that may be sent twice
   */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents): Cancel {
    const exchange = new UndiciExchange(this, request, permit, events)
    this.dispatch(exchange)
    return exchange.cancel
  }

  /**
   * What has arrived on an idle connection by now has to be read before it is used: its end, or bytes that nobody asked
   * for, which would be taken for the answer. undici waits for the next turn of the loop, which is too short where this
   * one has asked the system already what there is to read (Http1Sender). It is given the request a turn later.
   */
  dispatch(exchange: UndiciExchange): void {
    if (this.#idle === 0) this.#dispatch(exchange)
    else setImmediate(this.#dispatch, exchange)
  }

  /** Whether undici is handed the request right now. */
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

  /** The connection that a request goes out on. */
  take(socket: Socket, exchange: UndiciExchange): PooledConnection {
    const connection = this.#connections.get(socket)
    if (connection === undefined) throw new TypeError('a socket that was not dialled here')
    connection.carry(exchange)
    this.#idle -= 1
    return connection
  }

  /** What it carried is over; it may be closed already. */
  give(connection: PooledConnection): void {
    connection.release()
    this.#idle += 1
    if (connection.isUnwanted || this.#retired || this.#idle > MAX_IDLE_PER_KEY) connection.socket.destroy()
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

  /** What is connected to an address that the name of the upstream does not lead to any more is not used again. */
  #closeUnvetted(permit: Permit): void {
    this.#permit = permit
    for (const connection of this.#connections.values()) {
      if (isVetted(permit, connection.address)) continue
      connection.isUnwanted = true
      if (!connection.isBusy) connection.socket.destroy()
    }
  }

  /**
   * undici wants a connection. It says so while a request is dispatched that has none, and is given one for that
   * request; and later, for a request whose idle connection has ended before anything was sent. Which one that is it
   * does not say, but it notifies that request of the error, which then is dispatched anew.
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
    // Another request may have had other addresses meanwhile.
    connection.isUnwanted = this.#permit !== undefined && !isVetted(this.#permit, address)
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
class UndiciExchange implements Flow, Carried {
  readonly request: UpstreamRequest
  readonly permit: Permit
  /** Of the connection that is made for it. */
  dial: AbortController | undefined
  /** Whether nothing more of it is reported. */
  isOver = false
  readonly #sender: UndiciSender
  readonly #events: UpstreamEvents
  #connection: PooledConnection | undefined
  #isReused = false
  #interim = 0
  /** Whether the final response cannot be read, as far as is known. */
  #isUnreadable = false
  #responded = false
  /** For 304 with the length of what it is about (RFC 9110 §8.6): undici would miss that much content. */
  #endsWithHead = false
  #paused = false
  #failure: ProxyError | undefined
  /** Given once there is a connection. */
  #abort: Cancel | undefined
  /** Of the request that was sent in place of this one. */
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
    // undici keeps the connection when its handler throws here, and nothing is sent.
    if (this.isOver) throw new NotSent()
    this.#abort = abort
    this.#sender.undici.writing = this
  }

  /** It is written to this connection next. */
  write(socket: Socket): void {
    const connection = this.#sender.take(socket, this)
    const { connectMs, where } = connection
    connection.connectMs = undefined
    this.#connection = connection
    this.#isReused = connectMs === undefined
    this.#events.connected(where, connectMs, false)
  }

  /** All of it was written; what the system has not taken of it yet is followed to its end. */
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
      // undici's parser takes nothing behind that (RFC 9112 §9.6).
      if (head.fields.connectionOptions.includes('close')) this.#isUnreadable = true
      this.#events.informed(head)
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
    // undici takes a reset for the end of content that ends with its connection.
    const error = socket?.errored ?? undefined
    if (error !== undefined) {
      this.onError(error)
      return
    }
    const trailers =
      raw === null || raw.length === 0 ? NO_TRAILERS : this.#readTrailers(raw as readonly Buffer[])
    this.#end()
    // What Connection says in a trailer is nothing to a recipient, and ends the next response for undici's parser.
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
    const isStale = this.#isReused && !failing.hasBegun && failure.side === 'upstream' && !isOurs(error)
    this.#events.failed(failure, isStale ? 'reused-connection' : 'never')
  }

  refuse(error: unknown): void {
    this.#failure = toProxyError(toUpstreamError(error))
    this.#abort?.()
  }

  /** Whether it is the error of a connection that was idle, and was to be used for this next: nothing was sent. */
  #wasIdle(error: Error): boolean {
    const hasNone = this.#connection === undefined && this.dial === undefined
    return hasNone && !isOurs(error) && !this.#sender.isDispatching(this)
  }

  /** The head as our reader would have given it; undefined when it is refused. */
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

  /** Trailers that contradict what was read fail the response, as with our reader. */
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
