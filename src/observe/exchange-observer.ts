/**
 * Who is told of every exchange, once when it is decided and once when it is over, and of a tunnel when it stands: the
 * log and the metrics.
 */
import type { Outcome } from '../outcome.js'

/** What was asked for: the form of the target, or `invalid` when the request never got that far. */
export const EXCHANGE_KINDS = ['connect', 'forward', 'origin', 'server', 'invalid'] as const

export type ExchangeKind = (typeof EXCHANGE_KINDS)[number]

/** What an exchange is known by in both of its events. */
export interface Subject {
  readonly id: string
  /** The name of the client entry; absent when there is none for the address. */
  readonly client: string | undefined
  readonly clientAddress: string
  readonly kind: ExchangeKind
  readonly method: string
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly path?: string | undefined
  /** What the log says of it in both. */
  logged?: string | undefined
}

export const DECISIONS = ['allow', 'deny', 'would_deny'] as const

export interface DecisionEvent {
  /** `would_deny`: no rule allows it, and the rules are only observed. */
  readonly decision: (typeof DECISIONS)[number]
  /** The rule that allowed it, or came nearest. */
  readonly rule?: string | undefined
  /** Why it was denied, or would be. */
  readonly reason?: string | undefined
  /** What a denial would have said. */
  readonly wouldDeny?: string | undefined
  readonly dnsMs?: number | undefined
  /** More about why, for those who ask. */
  readonly refusal?: Refusal | undefined
}

export interface Refusal {
  /** One clause. */
  readonly message: string
  /** Sentences: what refused it, and what would allow it. */
  readonly detail: string | undefined
  /** The IP address that was refused, when it is one. */
  readonly address: string | undefined
}

export interface ExchangeObserver {
  decision(subject: Subject, event: DecisionEvent, configHash: string): void
  /**
   * A tunnel stands: it may take hours until it is over.
   * @param connectMs as its outcome will have it
   */
  tunnelOpened?(connectMs: number | undefined): void
  /**
   * @param durationMs from its head to its end
   * @param decided what `decision` was told before
   */
  close(subject: Subject, outcome: Outcome, durationMs: number, decided: DecisionEvent['decision']): void
}

/** Whether its bytes went through a tunnel: after CONNECT, or after an upgrade. */
export function isTunnel({ handler, status }: Outcome): boolean {
  return status === 101 || (handler === 'tunnel' && status === 200)
}

/** Tells both. */
export class ObserverPair implements ExchangeObserver {
  readonly #first: ExchangeObserver
  readonly #second: ExchangeObserver

  constructor(first: ExchangeObserver, second: ExchangeObserver) {
    this.#first = first
    this.#second = second
  }

  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    this.#first.decision(subject, event, configHash)
    this.#second.decision(subject, event, configHash)
  }

  tunnelOpened(connectMs: number | undefined): void {
    this.#first.tunnelOpened?.(connectMs)
    this.#second.tunnelOpened?.(connectMs)
  }

  close(subject: Subject, outcome: Outcome, durationMs: number, decided: DecisionEvent['decision']): void {
    this.#first.close(subject, outcome, durationMs, decided)
    this.#second.close(subject, outcome, durationMs, decided)
  }
}
