/** One request of a connection and its answer, as handlers see them: the exchange, and the content of its request. */
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

/** Who is at the other end, as far as the connection itself says. */
export interface ConnectedClient {
  /** An IP address; `unix` over a Unix socket. */
  readonly address: string
  /** Undefined when none was presented, or the connection is not TLS. */
  readonly certificate?: ClientCertificate | undefined
  /** The place of the connection. */
  readonly slot: ConnectionSlot
}

/** The connection that a request came on. */
export interface RequestConnection {
  readonly client: ConnectedClient
  /** Whether the client speaks TLS to the proxy. */
  readonly encrypted: boolean
  readonly output: ResponseOutput
  /** Content can be taken, for the first time or again. */
  contentWanted(): void
  refuse(error: ProxyError, method: string, hint?: string): void
  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched
  /** Whether what became of its last exchange has been reported. */
  isReported: boolean
  /** Goes on, where it waited for that. */
  advance(): void
}

/** How slow request content may be. */
export interface ContentLimits {
  /** Longest pause in request content, and longest time a client may take nothing of a response. */
  readonly bodyIdleMs: number
  /** Bytes a second of request content, over each `bodyIdleMs`; 0 for as slow as it likes. */
  readonly bodyMinRate: number
}

/** A window over which the rate of content is measured. */
interface Pace {
  /** Milliseconds in which content was wanted: a client is not to blame for an upstream that takes nothing. */
  wantedMs: number
  lookedAt: number
  /** How many bytes had come when it began. */
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

  /** @param connection that reads it; undefined where there is none to read */
  constructor(length: number | undefined, connection: Pick<RequestConnection, 'contentWanted'> | undefined) {
    this.length = length
    this.#connection = connection
  }

  /** Whether content is wanted now, of which more is to come. */
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
    // Content of no bytes may have come to its end before it is started anew.
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

  /** Nothing of it is read any more: whoever keeps the exchange keeps nothing of its connection. */
  release(): void {
    this.#connection = undefined
    this.#consumer = undefined
  }

  /**
   * Whether it comes more slowly than it may, over the time in which it was wanted. To be called often with the current
   * time, so that content itself costs nothing more. One window follows the other, and the first is the time that content
   * has to come up to speed.
   */
  isTooSlow(now: number, { bodyMinRate, bodyIdleMs }: ContentLimits): boolean {
    if (bodyMinRate === 0 || this.#consumer === undefined || this.#trailers !== undefined) return false
    const pace = this.#pace
    if (pace === undefined) {
      this.#pace = { wantedMs: 0, lookedAt: now, from: this.bytes }
      return false
    }
    if (!this.#paused) pace.wantedMs += now - pace.lookedAt
    pace.lookedAt = now
    if (pace.wantedMs < bodyIdleMs) return false
    this.#pace = { wantedMs: 0, lookedAt: now, from: this.bytes }
    return this.bytes - pace.from < (bodyMinRate * pace.wantedMs) / 1000
  }
}

/**
 * Makes the ids of exchanges.
 * @param instance what tells this process from others
 */
export function exchangeIds(instance: string): () => string {
  let count = 0
  return () => `${instance}-${(++count).toString(36)}`
}

/** Of every request that has none. */
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
  /** Undefined once the connection is not HTTP any more: a tunnel keeps nothing of the codec alive. */
  #connection: RequestConnection | undefined
  /** Called when it ends early; made for the first of them. */
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

  inform(status: number, reason: string, fields: Fields): void {
    if (this.aborted === undefined) this.#connection?.output.interim(status, reason, fields)
  }

  respond(head: ResponseHead): ResponseContent {
    if (this.#connection === undefined)
      throw new TypeError('a response on a connection that is not HTTP any more')
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

  /** What `onAborted` was given is not called any more. */
  offAborted(callback: () => void): void {
    const callbacks = this.#callbacks ?? []
    const index = callbacks.indexOf(callback)
    if (index === -1) return
    // As long as they are called one after another, each keeps its place.
    if (this.aborted === undefined) callbacks.splice(index, 1)
    else callbacks[index] = () => {}
  }

  get signal(): CancelSignal {
    this.#signal ??= new AbortedSignal(this)
    return this.#signal
  }

  /** The client is gone, or its connection is about to be ended from this side. */
  gone(closeReason: CloseReason = 'client_gone'): void {
    this.#abort({ kind: 'gone', closeReason })
  }

  /** The request broke off in a way that has an answer of its own, if none was begun. */
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

  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier
  }

  /** What has ended does not end in another way. */
  #abort(aborted: Aborted): void {
    if (this.aborted !== undefined) return
    this.aborted = aborted
    this.#connection?.output.mute()
    for (const callback of this.#callbacks ?? []) callback(aborted)
    this.#callbacks = undefined
  }
}

/** The early end of an exchange for work that takes a signal: what of an AbortSignal is needed, without its cost. */
class AbortedSignal implements CancelSignal {
  readonly #exchange: ConnectionExchange
  #reason: Error | undefined

  constructor(exchange: ConnectionExchange) {
    this.#exchange = exchange
  }

  get aborted(): boolean {
    return this.#exchange.aborted !== undefined
  }

  /** The same at every time: whoever catches it knows it by that. */
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
