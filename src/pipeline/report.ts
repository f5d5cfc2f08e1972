/**
 * What observers are told of an exchange: its decision, as far as it is known, once, whichever way it falls, and then its
 * end; and of a request that is malformed, and so never became an exchange, both at once.
 */
import type { Client } from '../clients/identify.js'
import type { ProxyError } from '../errors.js'
import type { ReceivedExchange } from './admitted-exchange.js'
import type { RequestTarget } from '../http/request-target.js'
import type { DecisionEvent, ExchangeKind, ExchangeObserver, Subject } from './exchange-observer.js'
import { Outcome } from '../outcome.js'
import type { Decision } from '../policy/decision.js'

export interface EntryOptions {
  readonly observer: ExchangeObserver
  readonly configHash: string
}

/** What is reported of one exchange. */
export class Entry {
  readonly subject: Subject
  readonly #observer: ExchangeObserver
  readonly #configHash: string
  #verdict: Decision | undefined
  #route: string | undefined
  #made = false
  #decision: DecisionEvent['decision'] = 'allow'

  constructor(exchange: ReceivedExchange, client: Client | undefined, options: EntryOptions) {
    const { target, method } = exchange.facts
    const authority = 'authority' in target ? target.authority : undefined
    // A tunnel keeps this for as long as it lives, and is to keep nothing else of its configuration.
    this.#observer = options.observer
    this.#configHash = options.configHash
    this.subject = {
      id: exchange.id,
      client: client?.name,
      clientAddress: exchange.clientAddress,
      kind: KINDS[target.form],
      method,
      host: authority?.host.name ?? exchange.facts.host?.host.name,
      port: authority?.port ?? exchange.facts.host?.port,
      path: 'path' in target ? target.path : undefined,
      logged: undefined,
    }
  }

  /** What policy says to the host, known before the addresses are. */
  byName(verdict: Decision): void {
    this.#verdict = verdict
  }

  /** Where no rule is asked: the key of what answers. */
  byRoute(key: string): void {
    this.#route = key
  }

  allow(dnsMs?: number): void {
    this.#pass(undefined, dnsMs)
  }

  /** An error before the decision was made: a refusal of ours, or an upstream that failed while it was allowed. */
  deny(error: ProxyError): void {
    if (error.side === 'upstream') this.#pass(error.reason)
    else this.#tell({ decision: 'deny', rule: this.rule, reason: error.reason, refusal: error })
  }

  /** The client left before the decision was made; what was known of the request by then was allowed. */
  abandon(): void {
    this.#pass('client_gone')
  }

  /** After the decision was made. */
  close(outcome: Outcome, durationMs: number): void {
    this.#observer.close(this.subject, outcome, durationMs, this.#decision)
  }

  /** @param reason why it went no further; the close event tells that too, so an observed denial tells its own */
  #pass(reason?: string, dnsMs?: number): void {
    const { rule } = this
    const denial = this.#verdict?.kind === 'allow' ? this.#verdict.wouldDeny : undefined
    if (denial === undefined) this.#tell({ decision: 'allow', rule, reason, dnsMs })
    else {
      this.#tell({
        decision: 'would_deny',
        rule,
        reason: denial.reason,
        wouldDeny: denial.message,
        refusal: denial,
        dnsMs,
      })
    }
  }

  /** What allows it, or came nearest: a rule, or the key of what answers. */
  get rule(): string | undefined {
    return this.#verdict?.rule ?? this.#route
  }

  #tell(event: DecisionEvent): void {
    if (this.#made) return
    this.#made = true
    this.#decision = event.decision
    this.#observer.decision(this.subject, event, this.#configHash)
  }
}

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
  observer: ExchangeObserver,
  configHash: string,
  { target, ...known }: InvalidRequest,
  error: ProxyError,
): void {
  const subject = { ...known, kind: 'invalid', path: withoutUserinfo(target) } as const
  observer.decision(subject, { decision: 'deny', reason: error.reason, refusal: error }, configHash)
  observer.close(subject, Outcome.refused('refusal', error), 0, 'deny')
}

/** A refused target may be one because a password stands in it; which is no reason to write that into a log. */
function withoutUserinfo(target: string): string {
  if (!target.startsWith('/')) return target.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/i, '$1')
  return target.replace(/\/\/[^/?#]*@/g, '//')
}
