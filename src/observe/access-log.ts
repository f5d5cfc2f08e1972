/**
 * The two events of every exchange: `decision` when it is decided, `close` when it is over. They carry neither
 * credentials nor, unless asked for, the query of a target.
 */
import { type DestinationStream, type Logger, pino } from 'pino'
import type { ProxyError } from '../errors.js'
import type { Outcome } from '../outcome.js'
import { createIsoTime, type EventFields, eventFields, eventLine } from './event-line.js'
import type { DecisionEvent, ExchangeObserver, Subject } from './exchange-observer.js'
import { LOG_SCHEMA } from './log.js'
import { withoutQuery } from './query.js'

export interface AccessLogOptions {
  readonly logger: Logger
  /** `omit` leaves out what follows `?` in a path. */
  readonly query: 'omit' | 'include'
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

export class AccessLog implements ExchangeObserver {
  readonly #write: (line: string) => void
  readonly #time: () => string
  readonly #subjects = new WeakMap<Subject, string>()
  readonly #includesQuery: boolean
  readonly #infoEnabled: boolean
  readonly #warnEnabled: boolean

  constructor({ logger, query, wallClock }: AccessLogOptions) {
    const stream = (logger as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym]
    if (stream === undefined) throw new TypeError('a logger without a stream')
    this.#write = stream.write.bind(stream)
    this.#time = createIsoTime(wallClock)
    this.#includesQuery = query === 'include'
    this.#infoEnabled = logger.isLevelEnabled('info')
    this.#warnEnabled = logger.isLevelEnabled('warn')
  }

  /** Refusals are warnings, also those that are only observed, so that a log at level warn holds them alone. */
  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    const denied = event.decision !== 'allow'
    if (!(denied ? this.#warnEnabled : this.#infoEnabled)) return
    this.#emit(denied ? 'warn' : 'info', 'decision', subject, {
      decision: event.decision,
      rule: event.rule,
      reason: event.reason,
      would_deny: event.wouldDeny,
      dns_ms: round(event.dnsMs),
      config_hash: configHash,
    })
  }

  /** Of a tunnel that is cut for its server name this is the refusal: its decision was to allow it. */
  close(subject: Subject, outcome: Outcome, durationMs: number): void {
    const denied = outcome.serverName !== undefined
    if (!(denied ? this.#warnEnabled : this.#infoEnabled)) return
    this.#emit(denied ? 'warn' : 'info', 'close', subject, {
      handler: outcome.handler,
      status: outcome.status,
      close_reason: outcome.closeReason,
      error: outcome.error?.type,
      reason: outcome.error?.reason ?? outcome.serverName?.fault,
      server_name: outcome.serverName?.sent,
      cause: internalCause(outcome.error),
      address: outcome.address,
      parent: outcome.parent,
      connect_ms: round(outcome.connectMs),
      first_byte_ms: round(outcome.firstByteMs),
      bytes_up: outcome.bytesUp,
      bytes_down: outcome.bytesDown,
      duration_ms: round(durationMs),
    })
  }

  #emit(level: string, event: string, subject: Subject, fields: EventFields): void {
    const beginning = `{"level":"${level}","time":"${this.#time()}","schema":${LOG_SCHEMA},"event":"${event}"`
    this.#write(eventLine(beginning + this.#subject(subject), fields))
  }

  /** The fields of the subject, made for the first of its two events. */
  #subject(subject: Subject): string {
    const made = this.#subjects.get(subject)
    if (made !== undefined) return made
    const text = eventFields('', {
      id: subject.id,
      client: subject.client,
      client_address: subject.clientAddress,
      kind: subject.kind,
      method: subject.method,
      host: subject.host,
      port: subject.port,
      path: this.#path(subject.path),
    })
    this.#subjects.set(subject, text)
    return text
  }

  #path(path: string | undefined): string | undefined {
    return path === undefined || this.#includesQuery ? path : withoutQuery(path)
  }
}

/** Where a fault of our own comes from; the causes of all other errors are told by their type. */
function internalCause(error: ProxyError | undefined): string | undefined {
  if (error?.type !== 'proxy_internal_error') return undefined
  const { cause } = error
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}

/** Milliseconds to three places. */
function round(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000
}
