/** The Exchange that handlers see, over one request of a connection. */
import type { ProxyError } from '../errors.js'
import type {
  ContentConsumer,
  Exchange,
  RequestContent,
  RequestFacts,
  ResponseContent,
  Switched,
} from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { RequestHead } from '../http1/request-reader.js'
import type { ResponseHead } from '../http1/response-writer.js'
import type { Connection } from './connection.js'

export class ConnectionExchange implements Exchange, RequestContent, ResponseContent {
  readonly id: string
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly #connection: Connection
  #consumer: ContentConsumer | undefined
  #paused = false
  #bytes = 0
  #responded = false
  #failure: ProxyError | undefined
  #isGone = false
  #onGone: (() => void)[] = []
  #controller: AbortController | undefined

  constructor(connection: Connection, id: string, head: RequestHead, facts: RequestFacts) {
    this.#connection = connection
    this.id = id
    this.head = head
    this.facts = facts
  }

  get clientAddress(): string {
    return this.#connection.clientAddress
  }

  get content(): RequestContent {
    return this
  }

  get responded(): boolean {
    return this.#responded
  }

  /** Why the request itself broke off, when it did: its answer, whatever the handler made of it. */
  get failure(): ProxyError | undefined {
    return this.#failure
  }

  // --- RequestContent ---

  get length(): number | undefined {
    const { framing } = this.head
    switch (framing.kind) {
      case 'none':
        return 0
      case 'length':
        return framing.length
      case 'chunked':
        return undefined
    }
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
    this.#connection.contentWanted()
  }

  resume(): void {
    if (!this.#paused || this.#isGone) return
    this.#paused = false
    this.#connection.contentWanted()
  }

  deliver(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#consumer?.data(chunk) === false) this.#paused = true
  }

  deliverEnd(trailers: Fields): void {
    this.#consumer?.end(trailers)
  }

  // --- the answer ---

  inform(status: number, reason: string, fields: Fields): void {
    if (!this.#isGone) this.#connection.inform(status, reason, fields)
  }

  respond(head: ResponseHead): ResponseContent {
    this.#responded = true
    return this.#isGone ? this : this.#connection.respond(head, this)
  }

  refuse(error: ProxyError): void {
    if (this.#isGone && this.#failure === undefined) return
    this.#connection.refuse(error, this.facts.method)
  }

  write(chunk: Uint8Array): boolean {
    return this.#isGone || this.#connection.write(chunk)
  }

  onDrain(callback: () => void): void {
    if (!this.#isGone) this.#connection.onDrain(callback)
  }

  end(trailers: Fields = []): void {
    if (!this.#isGone) this.#connection.end(trailers)
  }

  abort(): void {
    if (!this.#isGone) this.#connection.abort()
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched {
    this.#responded = true
    return this.#connection.switchTo(status, reason, fields, upgrade)
  }

  // --- the end before the answer ---

  onGone(callback: () => void): void {
    if (this.#isGone) callback()
    else this.#onGone.push(callback)
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController()
      this.#controller = controller
      this.onGone(() => controller.abort())
    }
    return this.#controller.signal
  }

  /** The client is gone. */
  gone(): void {
    if (this.#isGone) return
    this.#isGone = true
    for (const callback of this.#onGone.splice(0)) callback()
  }

  /** The request broke off in a way that has an answer of its own, if none was begun. */
  fail(error: ProxyError): void {
    this.#failure = error
    this.gone()
  }
}
