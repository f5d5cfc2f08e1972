/**
 * Who is notified of every exchange, once when it is decided and once when it is over, and of a tunnel when it is
 * established: the log, the metrics, the status page and the traces.
 */
import type { FieldSection } from '../http/field-section.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { Outcome } from '../outcome.js'

/** What was asked for: the form of the target, or `invalid` when the request never got that far. */
export const EXCHANGE_KINDS = ['connect', 'forward', 'origin', 'server', 'invalid'] as const

export type ExchangeKind = (typeof EXCHANGE_KINDS)[number]

/** What an exchange is known by in both of its events. */
export interface Subject {
  readonly id: string
  /** The name of the client entry; absent when there is none for the address. */
  readonly client: string | undefined
  /** Who has proved who they are to that entry, or to none: a user name, or the holder of a certificate. Never in metrics. */
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

/** What a request says of itself beside its subject. */
export interface BegunRequest {
  readonly head: { readonly fields: FieldSection }
  /** Whether the client speaks TLS to the proxy. */
  readonly encrypted: boolean
}

export interface ExchangeObserver {
  /** Whether it is notified only of decisions that deny something, or would: most decisions are others. */
  readonly ignoresAllowed?: boolean
  /**
   * A request whose head is in order, before both of its events.
   * @param started when its head had been read: milliseconds, monotonic
   * @returns what the next hop is to be told of the trace, from whoever traces
   */
  began?:
    | ((subject: Subject, request: BegunRequest, started: number) => OutgoingTrace | undefined)
    | undefined
  decision(subject: Subject, event: DecisionEvent, configHash: string): void
  /**
   * A tunnel is established: it may take hours until it is over.
   * @param connectMs as its outcome will have it
   * @param dnsMs as its decision had it
   */
  tunnelOpened?(connectMs: number | undefined, dnsMs: number | undefined): void
  /**
   * @param durationMs from its head to its end
   * @param decision of it, which was made before
   */
  close(subject: Subject, outcome: Outcome, durationMs: number, decision: DecisionEvent): void
}

/** Whether its bytes went through a tunnel: after CONNECT, or after an upgrade. */
export function isTunnel({ handler, status }: Outcome): boolean {
  return status === 101 || (handler === 'tunnel' && status === 200)
}

/** All who are notified, in their order. */
export class ObserverList {
  readonly all: readonly ExchangeObserver[]
  /** Those of them who are notified of decisions that allow something, too. */
  readonly ofAllowed: readonly ExchangeObserver[]
  /** Undefined where nobody traces. */
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
