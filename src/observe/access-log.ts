/**
 * The two events of every exchange: `decision` when it is decided, `close` when it is over. They carry neither
 * credentials nor, unless asked for, the query of a target.
 */
import type { Logger } from 'pino'
import type { Outcome } from '../outcome.js'

/** What was asked for: the form of the target, or `invalid` when the request never got that far. */
export type ExchangeKind = 'connect' | 'forward' | 'origin' | 'server' | 'invalid'

/** What an exchange is known by in both of its events. */
export interface Subject {
  readonly id: string
  readonly client: string
  readonly kind: ExchangeKind
  readonly method: string
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly path?: string | undefined
}

export interface DecisionEvent {
  readonly decision: 'allow' | 'deny'
  /** The rule that allowed it, or came nearest. */
  readonly rule?: string | undefined
  /** Why it was denied. */
  readonly reason?: string | undefined
  readonly dnsMs?: number | undefined
}

export interface AccessLogOptions {
  readonly logger: Logger
  /** `omit` leaves out what follows `?` in a path. */
  readonly query: 'omit' | 'include'
}

export class AccessLog {
  readonly #logger: Logger
  readonly #query: boolean

  constructor(options: AccessLogOptions) {
    this.#logger = options.logger
    this.#query = options.query === 'include'
  }

  /** Refusals are warnings, so that a log at level warn holds them alone. */
  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    const level = event.decision === 'deny' ? 'warn' : 'info'
    if (!this.#logger.isLevelEnabled(level)) return
    this.#logger[level]({
      event: 'decision',
      ...this.#subject(subject),
      decision: event.decision,
      rule: event.rule,
      reason: event.reason,
      dns_ms: round(event.dnsMs),
      config_hash: configHash,
    })
  }

  close(subject: Subject, outcome: Outcome, durationMs: number): void {
    if (!this.#logger.isLevelEnabled('info')) return
    this.#logger.info({
      event: 'close',
      ...this.#subject(subject),
      handler: outcome.handler,
      status: outcome.status,
      close_reason: outcome.closeReason,
      error: outcome.error?.type,
      reason: outcome.error?.reason,
      address: outcome.address,
      connect_ms: round(outcome.connectMs),
      first_byte_ms: round(outcome.firstByteMs),
      bytes_up: outcome.bytesUp,
      bytes_down: outcome.bytesDown,
      duration_ms: round(durationMs),
    })
  }

  #subject(subject: Subject): Subject {
    const { path } = subject
    const query = path === undefined ? -1 : path.indexOf('?')
    if (this.#query || path === undefined || query === -1) return subject
    return { ...subject, path: path.slice(0, query) }
  }
}

/** Milliseconds to three places. */
function round(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000
}
