/**
 * One client connection: the codec driven on a socket (RFC 9112 §9).
 *
 * Requests are read one after another and answered in order; while one is unanswered the bytes behind it wait in a
 * bounded buffer and are not looked at, so that an error in them can not overtake an answer that is owed.
 */
import type { Socket } from 'node:net'
import type { ClientCertificate } from '../tls/client-certificate.js'
import { type ProxyError, toProxyError } from '../errors.js'
import type { RequestFacts, Switched } from '../exchange.js'
import { wantsPersistence } from '../http/connection.js'
import type { Fields } from '../http/fields.js'
import { ConnectionState } from '../http1/connection-state.js'
import { type RequestEvent, type RequestHead, RequestReader } from '../http1/request-reader.js'
import type { ResponseHead } from '../http1/response-writer.js'
import type { ConnectionSlot } from '../limits/connection-slot.js'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import type { CloseReason } from '../outcome.js'
import { classify } from '../pipeline/classify.js'
import { ConnectionExchange, type ExchangeConnection } from './connection-exchange.js'
import type { ConnectedClient, ConnectionOwner, OwnedConnection } from './connection-owner.js'
import { Deadline, notTaken, timedOut } from './deadline.js'
import { LINGER_MS, Linger } from './linger.js'
import { errorResponse } from '../pipeline/error-page.js'
import { ResponseSide } from './response-side.js'

/** Bytes that may wait behind an unanswered request or a slow upstream before the socket is no longer read. */
const MAX_BUFFERED_BYTES = 64 * 1024

export class Connection implements ExchangeConnection, OwnedConnection {
  index = NOT_INDEXED
  readonly clientAddress: string
  readonly clientCertificate: ClientCertificate | undefined
  readonly encrypted: boolean
  readonly slot: ConnectionSlot
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  readonly #reader: RequestReader
  readonly #state = new ConnectionState()
  readonly #response: ResponseSide
  readonly #deadline: Deadline
  readonly #linger: Linger
  #exchange: ConnectionExchange | undefined
  #advancing = false
  #stalled = false
  /** An exchange was begun and its outcome is not reported yet: the next request waits for that, too. */
  #isUnreported = false

  constructor(socket: Socket, owner: ConnectionOwner, client: ConnectedClient) {
    this.#socket = socket
    this.slot = client.slot
    this.#owner = owner
    this.clientAddress = client.address
    this.clientCertificate = client.certificate
    this.encrypted = 'encrypted' in socket
    this.#reader = new RequestReader(owner.limits)
    this.#response = new ResponseSide(socket, this.#state)
    this.#deadline = new Deadline(owner)
    this.#linger = new Linger(socket)
    this.#deadline.set('head', owner.limits.headerTimeoutMs)
    this.#listen()
  }

  checkDeadline(now: number): void {
    switch (this.#deadline.takeExpired(now)) {
      case 'head':
        if (this.#reader.inHead) this.#refuseUnread(timedOut('head'))
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
      case 'none':
        this.#exchange?.checkPace(now, this.#owner.limits)
    }
  }

  drain(): void {
    if (this.#state.request !== 'idle') this.#response.mustClose()
    else if (!this.#reader.inHead || !this.#owner.draining) this.#close()
  }

  destroy(reason?: CloseReason): void {
    if (reason !== undefined) this.#exchange?.gone(reason)
    this.#response.destroy()
  }

  inform(status: number, reason: string, fields: Fields): void {
    this.#response.interim(status, reason, fields)
  }

  respond(head: ResponseHead): void {
    const unread = this.#state.request !== 'done'
    if (this.#owner.draining || (unread && head.status >= 400)) this.#response.mustClose()
    this.#response.head(head)
  }

  write(chunk: Uint8Array): boolean {
    this.#response.data(chunk)
    if (this.#response.congested) this.#deadline.set('write', this.#owner.limits.bodyIdleMs)
    return !this.#response.congested
  }

  onDrain(callback: () => void): void {
    this.#response.onDrain(callback)
  }

  end(trailers: Fields): void {
    this.#response.end(trailers)
    this.#exchange = undefined
    if (this.#state.request !== 'done' || this.#response.closes) this.#close()
    else {
      this.#state.onRequest('next')
      this.#state.onResponse('next')
      this.#deadline.set('keepalive', this.#owner.limits.keepaliveIdleMs)
      this.#advance()
    }
  }

  abort(): void {
    this.#response.flush()
    this.#exchange = undefined
    this.destroy()
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched {
    this.#response.switching(status, reason, fields, upgrade)
    this.#exchange = undefined
    this.#deadline.clear()
    this.#socket.pause()
    this.#unlisten()
    this.#owner.released(this)
    return { socket: this.#socket, rest: this.#reader.takeRest() }
  }

  /** Answers the exchange with an error; the connection survives only a request that was read to its end. */
  refuse(error: ProxyError, method: string, hint?: string): void {
    if (this.#state.response !== 'owed') {
      this.abort()
      return
    }
    // A CONNECT is read to its end only when it turns out that no tunnel follows, and the next request may.
    if (error.status === 407 && method === 'CONNECT' && this.#reader.buffered === 0) this.#endEmptyRequest()
    if (error.close || this.#state.request !== 'done') this.#response.mustClose()
    const { head, body } = errorResponse(error, this.#owner.date(), { hint, note: this.#owner.errorNote })
    this.respond(head)
    this.write(body)
    this.end([])
  }

  reported(): void {
    this.#isUnreported = false
    // Nobody is there to be answered.
    if (!this.#socket.destroyed) this.#advance()
  }

  contentWanted(): void {
    if (this.#deadline.kind !== 'write') this.#deadline.set('content', this.#owner.limits.bodyIdleMs)
    this.#advance()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#linger.active) this.#linger.discard(chunk)
    else {
      this.#reader.push(chunk)
      this.#advance()
    }
  }

  /** A FIN while an answer is owed means that nobody is there to read it; otherwise there is nothing more to do. */
  readonly #onEnd = (): void => {
    if (this.#exchange === undefined) this.#close()
    else this.#socket.destroy()
  }

  readonly #onDrain = (): void => {
    if (this.#deadline.kind === 'write' && !this.#linger.active) this.#resumeDeadline()
    this.#response.drained()
  }

  readonly #onError = (): void => void this.#socket.destroy()

  readonly #onClose = (): void => {
    this.#deadline.clear()
    this.#exchange?.gone()
    this.#exchange = undefined
    this.slot.release()
    this.#owner.released(this)
  }

  /** One line each: a table of them would be made anew for every connection, with what walks it. */
  #listen(): void {
    const socket = this.#socket
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', this.#onError)
    socket.on('close', this.#onClose)
  }

  #unlisten(): void {
    const socket = this.#socket
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('error', this.#onError)
    socket.off('close', this.#onClose)
  }

  #advance(): void {
    if (this.#advancing) return
    this.#advancing = true
    try {
      while (!this.#linger.active && this.#step()) {}
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
        if (this.#isUnreported) return false
        // Answers that the client does not take would pile up behind the requests that it goes on to send.
        if (this.#reader.buffered > 0 && this.#response.congested) {
          this.#stall()
          return false
        }
        const event = this.#reader.next()
        if (event?.type === 'head') this.#begin(event.head)
        else if (this.#deadline.kind !== 'head' && this.#reader.inHead) {
          this.#deadline.set('head', this.#owner.limits.headerTimeoutMs)
        }
        return event !== undefined
      }
      case 'content': {
        if (this.#exchange?.flowing !== true) return false
        const event = this.#reader.next()
        if (event !== undefined) this.#deliver(event, this.#exchange)
        return event !== undefined
      }
      case 'done':
      case 'broken':
        return false
    }
  }

  #begin(head: RequestHead): void {
    this.#deadline.clear()
    this.#state.onRequest('head')
    const persistent = !this.#owner.draining && wantsPersistence(head.fields, head.minor)
    this.#response.begin({ method: head.method, minor: head.minor, persistent })
    if (head.framing.kind === 'none' && head.method !== 'CONNECT') this.#endEmptyRequest()
    let facts: RequestFacts
    try {
      facts = classify(head, this.#owner.extraMethods)
    } catch (error) {
      const refusal = toProxyError(error)
      this.#owner.refused(this.clientAddress, head.method, head.target, refusal)
      this.refuse(refusal, head.method)
      return
    }
    this.#exchange = new ConnectionExchange(this, this.#owner.nextId(), head, facts)
    this.#isUnreported = true
    this.#owner.serve(this.#exchange)
  }

  /** A request without content ends with its head. */
  #endEmptyRequest(): void {
    this.#reader.next()
    this.#state.onRequest('end')
  }

  #deliver(event: RequestEvent, exchange: ConnectionExchange): void {
    if (event.type === 'data') {
      exchange.deliver(event.chunk)
      if (this.#deadline.kind !== 'write') this.#resumeDeadline()
    } else if (event.type === 'end') {
      if (this.#deadline.kind !== 'write') this.#deadline.clear()
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
    if (this.#state.request === 'idle') this.#state.onRequest('broken')
    this.#response.begin({ method, minor: 1, persistent: false })
    this.#owner.refused(this.clientAddress, method, target, error)
    this.refuse(error, method)
  }

  #adjustReading(): void {
    if (this.#state.response === 'switched') return
    const idle = this.#state.request === 'idle' && !this.#stalled && !this.#isUnreported
    const wanted = this.#exchange?.flowing === true || idle || this.#linger.active
    if (!wanted && this.#reader.buffered > MAX_BUFFERED_BYTES) this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  /** Holds the next request back until the client has taken the answers to those before it. */
  #stall(): void {
    if (this.#stalled) return
    this.#stalled = true
    this.#deadline.set('write', this.#owner.limits.bodyIdleMs)
    this.onDrain(() => {
      this.#stalled = false
      this.#advance()
    })
  }

  /** Times what is waited for, once that is not the client taking what was written. */
  #resumeDeadline(): void {
    const { bodyIdleMs, keepaliveIdleMs } = this.#owner.limits
    if (this.#exchange?.flowing === true) this.#deadline.set('content', bodyIdleMs)
    else if (this.#state.request === 'idle') this.#deadline.set('keepalive', keepaliveIdleMs)
    else this.#deadline.clear()
  }

  #close(): void {
    if (this.#linger.active) return
    const isIdle = this.#state.request === 'idle' && !this.#reader.inHead
    this.#response.flush()
    this.#deadline.set('write', this.#owner.limits.bodyIdleMs)
    this.#linger.begin(isIdle, () => this.#deadline.set('linger', LINGER_MS))
    this.#adjustReading()
  }
}
