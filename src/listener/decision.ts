/** The decision of an exchange, as far as it is known: told once, whichever way it falls, and then its end. */
import type { Client } from '../clients/identify.js'
import type { ProxyError } from '../errors.js'
import type { RequestTarget } from '../http/request-target.js'
import type { DecisionEvent, ExchangeKind, ExchangeObserver, Subject } from '../observe/exchange-observer.js'
import type { Outcome } from '../outcome.js'
import type { Decision as Verdict } from '../policy/decision.js'
import type { ConnectionExchange } from './connection-exchange.js'

export interface DecisionOptions {
  readonly observer: ExchangeObserver
  readonly configHash: () => string
}

export class Decision {
  readonly subject: Subject
  readonly #observer: ExchangeObserver
  readonly #configHash: string
  #verdict: Verdict | undefined
  #route: string | undefined
  #made = false
  #decision: DecisionEvent['decision'] = 'allow'

  constructor(exchange: ConnectionExchange, client: Client | undefined, options: DecisionOptions) {
    const { target, method } = exchange.facts
    const authority = 'authority' in target ? target.authority : undefined
    // A tunnel keeps this for as long as it lives, and is to keep nothing else of its configuration.
    this.#observer = options.observer
    this.#configHash = options.configHash()
    exchange.decision = this
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
  byName(verdict: Verdict): void {
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
