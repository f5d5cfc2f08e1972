/** One request of a connection and its response, as handlers see them: the exchange, and the content of its request. */
import type { ClientCertificate } from '../tls/client-certificate.js'
import type { ProxyError } from '../errors.js'
import type {
  CancelSignal,
  ContentConsumer,
  RequestContent,
  RequestFacts,
  ResponseContent,
  Switched,
} from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { RequestHead } from '../http1/request-reader.js'
import type { ResponseHead } from '../http1/response-writer.js'
import type { ConnectionSlot } from '../limits/connection-slot.js'
import type { Aborted, CloseReason } from '../outcome.js'
import type { Carrier, ReceivedExchange } from '../pipeline/admitted-exchange.js'
import type { ResponseOutput } from './output.js'

/** The peer of a connection, as far as the connection itself identifies it. */
export interface ConnectedClient {
  /** An IP address; `unix` over a Unix socket. */
  readonly address: string
  /** Undefined when no certificate was presented, or the connection does not use TLS. */
  readonly certificate?: ClientCertificate | undefined
  /** The slot that the connection occupies. */
  readonly slot: ConnectionSlot
}

/** The connection on which a request was received. */
export interface RequestConnection {
  readonly client: ConnectedClient
  /** Whether the client uses TLS to the proxy. */
  readonly encrypted: boolean
  readonly output: ResponseOutput
  /** Content can be accepted, for the first time or again. */
  contentWanted(): void
  refuse(error: ProxyError, method: string, hint?: string): void
  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched
  /** Whether the close of its last exchange was reported to the observers. */
  isReported: boolean
  /** Continues after that was reported. */
  advance(): void
}

/** Limits for how slowly content may be sent or read. */
export interface ContentLimits {
  /** Milliseconds: the longest pause in request content, and the longest time in which a client reads nothing. */
  readonly bodyIdleMs: number
  /** Bytes of request content a second, averaged over each `bodyIdleMs`; 0 for no minimum. */
  readonly bodyMinRate: number
}

/** A period over which the rate of content is measured. */
interface Pace {
  /** Milliseconds in which content was wanted: a client is not responsible for an upstream that does not read. */
  wantedMs: number
  checkedAt: number
  /** The number of bytes received when the period began. */
  readonly from: number
}

export class ReceivedContent implements RequestContent {
  readonly length: number | undefined
  bytes = 0
  #connection: Pick<RequestConnection, 'contentWanted'> | undefined
  #consumer: ContentConsumer | undefined
  #trailers: Fields | undefined
  #paused = false
  #pace: Pace | undefined

  /** @param connection that reads the content; undefined when there is none */
  constructor(length: number | undefined, connection: Pick<RequestConnection, 'contentWanted'> | undefined) {
    this.length = length
    this.#connection = connection
  }

  /** Whether content is wanted now and more is to come. */
  get flowing(): boolean {
    return this.#consumer !== undefined && !this.#paused && this.#trailers === undefined
  }

  start(consumer: ContentConsumer): void {
    if (this.length === 0) {
      consumer.end([])
      return
    }
    this.#consumer = consumer
    this.#paused = false
    // Empty content may already have ended when it is started again.
    if (this.#trailers !== undefined) consumer.end(this.#trailers)
    else this.#connection?.contentWanted()
  }

  stop(): void {
    this.#consumer = undefined
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#connection?.contentWanted()
  }

  deliver(chunk: Buffer): void {
    this.bytes += chunk.length
    if (this.#consumer?.data(chunk) === false) this.#paused = true
  }

  deliverEnd(trailers: Fields): void {
    this.#trailers = trailers
    this.#consumer?.end(trailers)
  }

  /** Nothing more is read; the exchange must not keep its connection in memory. */
  release(): void {
    this.#connection = undefined
    this.#consumer = undefined
  }

  /**
   * Whether content arrives more slowly than allowed, over the time in which it was wanted. The server calls it at
   * short intervals, so that the content itself costs nothing extra. Periods follow each other; a client has the whole
   * first one to reach the required rate.
   */
  isTooSlow(now: number, { bodyMinRate, bodyIdleMs }: ContentLimits): boolean {
    if (bodyMinRate === 0 || this.#consumer === undefined || this.#trailers !== undefined) return false
    const pace = this.#pace
    if (pace === undefined) {
      this.#pace = { wantedMs: 0, checkedAt: now, from: this.bytes }
      return false
    }
    if (!this.#paused) pace.wantedMs += now - pace.checkedAt
    pace.checkedAt = now
    if (pace.wantedMs < bodyIdleMs) return false
    this.#pace = { wantedMs: 0, checkedAt: now, from: this.bytes }
    return this.bytes - pace.from < (bodyMinRate * pace.wantedMs) / 1000
  }
}

/**
 * Returns a function that generates the ids of exchanges.
 * @param instance distinguishes this process from others
 */
export function exchangeIds(instance: string): () => string {
  let count = 0
  return () => `${instance}-${(++count).toString(36)}`
}

/** The content of every request that has none. */
const NO_CONTENT = new ReceivedContent(0, undefined)

export class ConnectionExchange implements ReceivedExchange {
  readonly id: string
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly content: ReceivedContent
  responded = false
  aborted: Aborted | undefined
  readonly #client: ConnectedClient
  readonly encrypted: boolean
  /** Undefined once the connection is no longer HTTP: a tunnel must not keep the codec in memory. */
  #connection: RequestConnection | undefined
  /** Called when the exchange ends early; created for the first callback. */
  #callbacks: ((aborted: Aborted) => void)[] | undefined
  #signal: CancelSignal | undefined
  #carrier: Carrier | undefined

  constructor(connection: RequestConnection, id: string, head: RequestHead, facts: RequestFacts) {
    const { framing } = head
    this.id = id
    this.head = head
    this.facts = facts
    this.content =
      framing.kind === 'none'
        ? NO_CONTENT
        : new ReceivedContent(framing.kind === 'length' ? framing.length : undefined, connection)
    this.#client = connection.client
    this.encrypted = connection.encrypted
    this.#connection = connection
  }

  get clientAddress(): string {
    return this.#client.address
  }

  get clientCertificate(): ClientCertificate | undefined {
    return this.#client.certificate
  }

  get slot(): ConnectionSlot {
    return this.#client.slot
  }

  sendInterim(status: number, reason: string, fields: Fields): void {
    if (this.aborted === undefined) this.#connection?.output.interim(status, reason, fields)
  }

  respond(head: ResponseHead): ResponseContent {
    if (this.#connection === undefined)
      throw new TypeError('a response on a connection that is no longer HTTP')
    const { output } = this.#connection
    this.responded = true
    if (this.aborted === undefined) output.head(head)
    return output
  }

  refuse(error: ProxyError, hint?: string): void {
    if (this.aborted?.kind !== 'gone') this.#connection?.refuse(error, this.facts.method, hint)
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched {
    const connection = this.#connection
    if (connection === undefined) throw new TypeError('switched twice')
    this.responded = true
    this.#connection = undefined
    this.content.release()
    return connection.switchTo(status, reason, fields, upgrade)
  }

  reported(): void {
    if (this.#connection === undefined) return
    this.#connection.isReported = true
    this.#connection.advance()
  }

  onAborted(callback: (aborted: Aborted) => void): void {
    if (this.aborted !== undefined) callback(this.aborted)
    else if (this.#callbacks === undefined) this.#callbacks = [callback]
    else this.#callbacks.push(callback)
  }

  /** Removes a callback of `onAborted`. */
  offAborted(callback: () => void): void {
    const callbacks = this.#callbacks ?? []
    const index = callbacks.indexOf(callback)
    if (index === -1) return
    // While callbacks are being called, their positions must not change.
    if (this.aborted === undefined) callbacks.splice(index, 1)
    else callbacks[index] = () => {}
  }

  get signal(): CancelSignal {
    this.#signal ??= new AbortedSignal(this)
    return this.#signal
  }

  /** The client has closed the connection, or the proxy is about to. */
  gone(closeReason: CloseReason = 'client_gone'): void {
    this.#abort({ kind: 'gone', closeReason })
  }

  /** The request failed; the error is sent as its response unless one has begun. */
  fail(error: ProxyError, closeReason: CloseReason = 'failed'): void {
    this.#abort({ kind: 'failed', closeReason, error })
  }

  get bytesPassed(): number {
    const { bytesUp = 0, bytesDown = 0 } = this.#carrier ?? {}
    return this.content.bytes + (this.#connection?.output.bytes ?? 0) + bytesUp + bytesDown
  }

  stopTunnel(reason: CloseReason): void {
    this.#carrier?.stop(reason)
  }

  becameTunnel(carrier: Carrier): void {
    this.#carrier = carrier
  }

  /** Only the first end of an exchange counts. */
  #abort(aborted: Aborted): void {
    if (this.aborted !== undefined) return
    this.aborted = aborted
    this.#connection?.output.mute()
    for (const callback of this.#callbacks ?? []) callback(aborted)
    this.#callbacks = undefined
  }
}

/** The early end of an exchange as a signal: the parts of AbortSignal that are used, without its cost. */
class AbortedSignal implements CancelSignal {
  readonly #exchange: ConnectionExchange
  #reason: Error | undefined

  constructor(exchange: ConnectionExchange) {
    this.#exchange = exchange
  }

  get aborted(): boolean {
    return this.#exchange.aborted !== undefined
  }

  /** Always the same object, by which a handler recognises it. */
  get reason(): unknown {
    if (this.aborted) this.#reason ??= new Error('the exchange has ended early')
    return this.#reason
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (!this.aborted) this.#exchange.onAborted(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#exchange.offAborted(listener)
  }
}
