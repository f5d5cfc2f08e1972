/**
 * Reports an exchange to the observers: its decision once, and its close. A malformed request, which never becomes an
 * exchange, is reported as denied and closed at once.
 */
import type { Client } from '../clients/identify.js'
import { ProxyError } from '../errors.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import { type ClientLimits, NO_CLIENT_LIMITS } from '../limits/client-limits.js'
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

/** An exchange, with what the pipeline finds out about it. */
export class Report implements AdmittedExchange {
  readonly exchange: ReceivedExchange
  readonly subject: Subject
  readonly trace: OutgoingTrace | undefined
  /** What allows it, or the nearest rule: the name of a rule, or the configuration key of what answers. */
  rule: string | undefined
  /** The denial of a policy that is only observed. */
  wouldDeny: Denial | undefined
  dnsMs: number | undefined
  partition: string | undefined
  limits: ClientLimits
  readonly #observers: ObserverList
  readonly #configHash: string
  #decision: DecisionEvent | undefined

  /**
   * @param client the identified client, or the reason for its refusal; undefined if it left before it was identified
   * @param started when its head was read: milliseconds, monotonic
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
    const known = client instanceof ProxyError ? undefined : client
    this.exchange = exchange
    this.limits = known?.limits ?? NO_CLIENT_LIMITS
    this.subject = {
      id,
      client: known?.name,
      user: client?.user,
      clientAddress,
      kind: KINDS[target.form],
      method,
      host: named?.name,
      port,
      path,
    }
    // A tunnel keeps these references while it is open; it must not keep the rest of its configuration in memory.
    this.#observers = observers
    this.#configHash = configHash
    this.trace = observers.began?.(this.subject, exchange, started)
  }

  /**
   * Reports that the exchange was allowed.
   * @param dnsMs milliseconds spent on name resolution
   * @param reason why it was not continued, also in the close event; an observed denial has its own reason instead
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

  /** Reports that the exchange has ended. */
  close(outcome: Outcome, durationMs: number): void {
    const decision = this.#decision ?? this.#decideBy(outcome.error)
    for (const observer of this.#observers.all) observer.close(this.subject, outcome, durationMs, decision)
  }

  /** It ended before a decision: then it counts as allowed, unless the error is a refusal by Sluice. */
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
  /** The name of the client entry that contains the address. */
  readonly client: string | undefined
  readonly clientAddress: string
  /** Method and target are as far as they were read. */
  readonly method: string
  readonly target: string
}

/** Reports a malformed request as one that was denied and closed at once. */
export function reportInvalidRequest(
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

/** A target may have been refused because it contains a password, which must not be written to the log. */
function withoutUserinfo(target: string): string {
  if (!target.startsWith('/')) return target.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/i, '$1')
  return target.replace(/\/\/[^/?#]*@/g, '//')
}
