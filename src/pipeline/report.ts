/**
 * What observers are told of an exchange: its decision, as far as it is known, once, whichever way it falls, and then its
 * end; and of a request that is malformed, and so never became an exchange, both at once.
 */
import type { Client } from '../clients/identify.js'
import { ProxyError } from '../errors.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { AdmittedExchange, ReceivedExchange } from './admitted-exchange.js'
import type { RequestTarget } from '../http/request-target.js'
import type {
  DecisionEvent,
  ExchangeKind,
  ExchangeObserver,
  ObserverList,
  Subject,
} from './exchange-observer.js'
import { Outcome } from '../outcome.js'
import type { Denial } from '../policy/denial.js'

export interface ReportOptions {
  readonly observers: ObserverList
  readonly configHash: string
}

/** An exchange, with what is found out about it on its way. */
export class Report implements AdmittedExchange {
  readonly exchange: ReceivedExchange
  readonly subject: Subject
  readonly trace: OutgoingTrace | undefined
  /** What allows it, or came nearest: a rule, or the key of what answers. */
  rule: string | undefined
  /** What policy would have said, where it is only observed. */
  wouldDeny: Denial | undefined
  dnsMs: number | undefined
  partition: string | undefined
  readonly #observers: ObserverList
  readonly #configHash: string
  #decision: DecisionEvent | undefined

  /**
   * @param client who asks, or why they are refused; undefined for whoever left before that was known
   * @param started when its head had been read: milliseconds, monotonic
   */
  constructor(
    exchange: ReceivedExchange,
    client: Client | ProxyError | undefined,
    started: number,
    { observers, configHash }: ReportOptions,
  ) {
    const { id, clientAddress, facts } = exchange
    const { target, method, host } = facts
    const { host: named, port } = ('authority' in target ? target.authority : host) ?? NOWHERE
    const path = 'path' in target ? target.path : undefined
    this.exchange = exchange
    this.subject = {
      id,
      client: client instanceof ProxyError ? undefined : client?.name,
      user: client?.user,
      clientAddress,
      kind: KINDS[target.form],
      method,
      host: named?.name,
      port,
      path,
    }
    // A tunnel keeps these for as long as it lives, and is to keep nothing else of its configuration.
    this.#observers = observers
    this.#configHash = configHash
    this.trace = observers.began?.(this.subject, exchange, started)
  }

  /**
   * It is let through.
   * @param dnsMs milliseconds that its addresses took
   * @param reason why it went no further; the close event tells that too, so an observed denial tells its own
   */
  allow(dnsMs?: number, reason?: string): DecisionEvent {
    const { rule, wouldDeny: refusal } = this
    const event: DecisionEvent =
      refusal === undefined
        ? { decision: 'allow', rule, reason, dnsMs }
        : {
            decision: 'would_deny',
            rule,
            reason: refusal.reason,
            wouldDeny: refusal.message,
            refusal,
            dnsMs,
          }
    this.dnsMs = dnsMs
    this.#decision = event
    const { all, ofAllowed } = this.#observers
    for (const observer of refusal === undefined ? ofAllowed : all) {
      observer.decision(this.subject, event, this.#configHash)
    }
    return event
  }

  deny(error: ProxyError): DecisionEvent {
    const event: DecisionEvent = { decision: 'deny', rule: this.rule, reason: error.reason, refusal: error }
    this.#decision = event
    for (const observer of this.#observers.all) observer.decision(this.subject, event, this.#configHash)
    return event
  }

  /** It is over. */
  close(outcome: Outcome, durationMs: number): void {
    const decision = this.#decision ?? this.#decideBy(outcome.error)
    for (const observer of this.#observers.all) observer.close(this.subject, outcome, durationMs, decision)
  }

  /** It was over before it was decided: what was known of it by then was allowed, unless it is a refusal of ours. */
  #decideBy(error: ProxyError | undefined): DecisionEvent {
    if (error === undefined) return this.allow(undefined, 'client_gone')
    return error.side === 'upstream' ? this.allow(undefined, error.reason) : this.deny(error)
  }
}

const NOWHERE = { host: undefined, port: undefined }

const KINDS = {
  authority: 'connect',
  absolute: 'forward',
  origin: 'origin',
  asterisk: 'server',
} as const satisfies Record<RequestTarget['form'], ExchangeKind>

export interface InvalidRequest {
  readonly id: string
  /** The name of the client entry that holds the address. */
  readonly client: string | undefined
  readonly clientAddress: string
  /** Both as far as they were read. */
  readonly method: string
  readonly target: string
}

/** Tells of it as of one that was denied and answered at once. */
export function tellInvalidRequest(
  observers: readonly ExchangeObserver[],
  configHash: string,
  { target, ...known }: InvalidRequest,
  error: ProxyError,
): void {
  const subject = { ...known, kind: 'invalid', path: withoutUserinfo(target) } as const
  const event = { decision: 'deny', reason: error.reason, refusal: error } as const
  for (const observer of observers) observer.decision(subject, event, configHash)
  const outcome = Outcome.refused('refusal', error)
  for (const observer of observers) observer.close(subject, outcome, 0, event)
}

/** A refused target may be one because a password stands in it; which is no reason to write that into a log. */
function withoutUserinfo(target: string): string {
  if (!target.startsWith('/')) return target.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/i, '$1')
  return target.replace(/\/\/[^/?#]*@/g, '//')
}
