/** The Exchange that handlers see, over one request of a connection. */
import type { ClientCertificate } from '../tls/client-certificate.js'
import type { ProxyError } from '../errors.js'
import type { Carrier, ReceivedExchange } from '../pipeline/admitted-exchange.js'
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
import { AbortedSignal } from './aborted-signal.js'
import { type ContentLimits, ContentPace } from './content-pace.js'
import { tooSlow } from './deadline.js'

/** What an exchange asks of the connection it came on. */
export interface ExchangeConnection {
  readonly clientAddress: string
  /** Undefined when none was presented, or the connection is not TLS. */
  readonly clientCertificate: ClientCertificate | undefined
  /** Whether the client speaks TLS to the proxy. */
  readonly encrypted: boolean
  readonly slot: ConnectionSlot
  inform(status: number, reason: string, fields: Fields): void
  respond(head: ResponseHead): void
  refuse(error: ProxyError, method: string, hint?: string): void
  write(chunk: Uint8Array): boolean
  onDrain(callback: () => void): void
  end(trailers: Fields): void
  abort(): void
  switchTo(status: number, reason: string, fields: Fields, upgrade: string | undefined): Switched
  /** The exchange can take more content, or takes it for the first time. */
  contentWanted(): void
  /** What became of the exchange has been reported. */
  reported(): void
}

export class ConnectionExchange implements ReceivedExchange, RequestContent, ResponseContent {
  readonly id: string
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly clientAddress: string
  readonly clientCertificate: ClientCertificate | undefined
  readonly encrypted: boolean
  /** Of the connection; whoever takes that over gives it back. */
  readonly slot: ConnectionSlot
  /** Let go of once the connection is not HTTP any more: a tunnel keeps nothing of the codec alive. */
  #connection: ExchangeConnection | undefined
  #consumer: ContentConsumer | undefined
  #trailers: Fields | undefined
  #paused = false
  #pace: ContentPace | undefined
  #bytes = 0
  #bytesDown = 0
  #carrier: Carrier | undefined
  #responded = false
  #aborted: Aborted | undefined
  readonly #signal = new AbortedSignal()

  constructor(connection: ExchangeConnection, id: string, head: RequestHead, facts: RequestFacts) {
    this.#connection = connection
    this.clientAddress = connection.clientAddress
    this.clientCertificate = connection.clientCertificate
    this.encrypted = connection.encrypted
    this.slot = connection.slot
    this.id = id
    this.head = head
    this.facts = facts
  }

  get content(): RequestContent {
    return this
  }

  get responded(): boolean {
    return this.#responded
  }

  // --- Metered ---

  get bytesPassed(): number {
    return (
      this.#bytes +
      this.#bytesDown +
      (this.#carrier === undefined ? 0 : this.#carrier.bytesUp + this.#carrier.bytesDown)
    )
  }

  stopTunnel(reason: CloseReason): void {
    this.#carrier?.stop(reason)
  }

  /** It has become a tunnel. */
  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier
  }

  // --- RequestContent ---

  get length(): number | undefined {
    const { framing } = this.head
    if (framing.kind === 'chunked') return undefined
    return framing.kind === 'length' ? framing.length : 0
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether content is wanted now. */
  get flowing(): boolean {
    return this.#consumer !== undefined && !this.#paused
  }

  start(consumer: ContentConsumer): void {
    this.#consumer = consumer
    this.#paused = false
    // Content of no bytes may have come to its end before it is started anew.
    if (this.#trailers !== undefined) consumer.end(this.#trailers)
    else this.#connection?.contentWanted()
  }

  stop(): void {
    this.#consumer = undefined
  }

  /** Fails when its content comes more slowly than it may; called often with the current time. */
  checkPace(now: number, { bodyMinRate, bodyIdleMs }: ContentLimits): void {
    if (bodyMinRate === 0 || this.#consumer === undefined || this.#trailers !== undefined) return
    this.#pace ??= new ContentPace(now, this.#bytes)
    if (this.#pace.isBelow(bodyMinRate, bodyIdleMs, now, this.#bytes, this.flowing)) {
      this.fail(tooSlow(bodyMinRate))
    }
  }

  resume(): void {
    if (!this.#paused || this.#aborted !== undefined) return
    this.#paused = false
    this.#connection?.contentWanted()
  }

  deliver(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#consumer?.data(chunk) === false) this.#paused = true
  }

  deliverEnd(trailers: Fields): void {
    this.#trailers = trailers
    this.#consumer?.end(trailers)
  }

  // --- the answer ---

  inform(status: number, reason: string, fields: Fields): void {
    if (this.#aborted === undefined) this.#connection?.inform(status, reason, fields)
  }

  respond(head: ResponseHead): ResponseContent {
    this.#responded = true
    if (this.#aborted === undefined) this.#connection?.respond(head)
    return this
  }

  /** @param hint a line that goes into the body as it is */
  refuse(error: ProxyError, hint?: string): void {
    if (this.#aborted?.kind === 'gone') return
    this.#connection?.refuse(error, this.facts.method, hint)
  }

  write(chunk: Uint8Array): boolean {
    this.#bytesDown += chunk.length
    return this.#aborted !== undefined || (this.#connection?.write(chunk) ?? true)
  }

  onDrain(callback: () => void): void {
    if (this.#aborted === undefined) this.#connection?.onDrain(callback)
  }

  end(trailers: Fields = []): void {
    if (this.#aborted === undefined) this.#connection?.end(trailers)
  }

  abort(): void {
    if (this.#aborted === undefined) this.#connection?.abort()
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched {
    const connection = this.#connection
    if (connection === undefined) throw new Error('switched twice')
    this.#responded = true
    this.#connection = undefined
    return connection.switchTo(status, reason, fields, upgrade)
  }

  /** What became of it has been reported: another request of the connection may begin. */
  reported(): void {
    this.#connection?.reported()
  }

  // --- the end before the answer ---

  get aborted(): Aborted | undefined {
    return this.#aborted
  }

  onAborted(callback: (aborted: Aborted) => void): void {
    const tell = (): void => {
      if (this.#aborted !== undefined) callback(this.#aborted)
    }
    if (this.#aborted === undefined) this.#signal.addEventListener('abort', tell)
    else tell()
  }

  get signal(): CancelSignal {
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

  /** What has ended does not end in another way. */
  #abort(aborted: Aborted): void {
    if (this.#aborted !== undefined) return
    this.#aborted = aborted
    this.#signal.fire()
  }
}
