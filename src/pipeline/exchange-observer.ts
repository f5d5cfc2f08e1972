/**
 * Observers are notified of every exchange, once when it is decided and once when it is closed, and of a tunnel when it
 * is established: the log, the metrics, the status page and the traces.
 */
import type { FieldSection } from '../http/field-section.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { Outcome } from '../outcome.js'

/** The kind of request: the form of the target, or `invalid` when the request could not be parsed. */
export const EXCHANGE_KINDS = ['connect', 'forward', 'origin', 'server', 'invalid'] as const

export type ExchangeKind = (typeof EXCHANGE_KINDS)[number]

/** Identifies an exchange in both of its events. */
export interface Subject {
  readonly id: string
  /** The name of the client entry; undefined when no entry contains the address. */
  readonly client: string | undefined
  /**
   * The authenticated user, also of a refused request: a user name, or the holder of a certificate. Never in metrics.
   */
  readonly user?: string | undefined
  readonly clientAddress: string
  readonly kind: ExchangeKind
  readonly method: string
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly path?: string | undefined
}

export const DECISIONS = ['allow', 'deny', 'would_deny'] as const

export interface DecisionEvent {
  /** `would_deny`: no rule allows the request, but the rules are only observed. */
  readonly decision: (typeof DECISIONS)[number]
  /** The rule that allowed it, or the nearest one. */
  readonly rule?: string | undefined
  /** Why it was denied, or would be. */
  readonly reason?: string | undefined
  /** The message that a denial would have. */
  readonly wouldDeny?: string | undefined
  readonly dnsMs?: number | undefined
  /** More details, for observers that need them. */
  readonly refusal?: Refusal | undefined
}

export interface Refusal {
  /** One clause. */
  readonly message: string
  /** Sentences: what refused the request, and what would allow it. */
  readonly detail: string | undefined
  /** The IP address that was refused; undefined when the reason is not an address. */
  readonly address: string | undefined
}

/** The parts of a request that its subject does not contain. */
export interface BegunRequest {
  readonly head: { readonly fields: FieldSection }
  /** Whether the client uses TLS to the proxy. */
  readonly encrypted: boolean
}

export interface ExchangeObserver {
  /** Whether the observer is notified only of denials and `would_deny`; most decisions are neither. */
  readonly ignoresAllowed?: boolean
  /**
   * A request with a valid head was received; precedes both other events.
   * @param started when its head was read: milliseconds, monotonic
   * @returns the trace fields for the next hop, if the observer traces
   */
  began?:
    | ((subject: Subject, request: BegunRequest, started: number) => OutgoingTrace | undefined)
    | undefined
  decision(subject: Subject, event: DecisionEvent, configHash: string): void
  /**
   * A tunnel was established; its close may follow hours later.
   * @param connectMs as its outcome will contain it
   * @param dnsMs as its decision contains it
   */
  tunnelOpened?(connectMs: number | undefined, dnsMs: number | undefined): void
  /**
   * The exchange has ended.
   * @param durationMs from its head to its end
   * @param decision its earlier decision
   */
  close(subject: Subject, outcome: Outcome, durationMs: number, decision: DecisionEvent): void
}

/** Whether the exchange was a tunnel: after CONNECT, or after an upgrade. */
export function isTunnel({ handler, status }: Outcome): boolean {
  return status === 101 || (handler === 'tunnel' && status === 200)
}

/** All observers, in the order in which they are notified. */
export class ObserverList {
  readonly all: readonly ExchangeObserver[]
  /** The observers that are also notified of decisions that allow. */
  readonly ofAllowed: readonly ExchangeObserver[]
  /** Undefined when nothing is traced. */
  readonly began: ExchangeObserver['began']

  constructor(observers: readonly ExchangeObserver[]) {
    const tracing = observers.find(({ began }) => began !== undefined)
    this.began = tracing?.began?.bind(tracing)
    this.all = observers
    this.ofAllowed = observers.filter(({ ignoresAllowed }) => ignoresAllowed !== true)
  }

  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void {
    for (const observer of this.all) observer.tunnelOpened?.(connectMs, dnsMs)
  }
}
