/** A received exchange with what the pipeline has found out about it: values, of which nothing is written back. */
import type { AdmittedExchange, ReceivedExchange } from './admitted-exchange.js'
import type { CancelSignal, RequestContent, RequestFacts, ResponseContent, Switched } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { RequestHead } from '../http1/request-reader.js'
import type { ResponseHead } from '../http1/response-writer.js'
import type { Subject } from './exchange-observer.js'
import type { Aborted } from '../outcome.js'

export class Admitted implements AdmittedExchange {
  readonly id: string
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly content: RequestContent
  readonly signal: CancelSignal
  readonly received: ReceivedExchange
  readonly subject: Subject
  readonly rule: string | undefined
  readonly trace: OutgoingTrace | undefined

  constructor(
    received: ReceivedExchange,
    subject: Subject,
    rule: string | undefined,
    trace: OutgoingTrace | undefined,
  ) {
    this.id = received.id
    this.head = received.head
    this.facts = received.facts
    this.content = received.content
    this.signal = received.signal
    this.received = received
    this.subject = subject
    this.rule = rule
    this.trace = trace
  }

  get aborted(): Aborted | undefined {
    return this.received.aborted
  }

  get responded(): boolean {
    return this.received.responded
  }

  onAborted(callback: (aborted: Aborted) => void): void {
    this.received.onAborted(callback)
  }

  inform(status: number, reason: string, fields: Fields): void {
    this.received.inform(status, reason, fields)
  }

  respond(head: ResponseHead): ResponseContent {
    return this.received.respond(head)
  }

  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched {
    return this.received.switchTo(status, reason, fields, upgrade)
  }
}
