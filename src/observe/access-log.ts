/**
 * The access log writes two events for every exchange: `decision` when it is decided and `close` when it ends. They contain
 * no credentials, and the query of a target only if the configuration asks for it.
 */
import { type DestinationStream, type Logger, pino } from 'pino'
import { errorCode, ProxyError } from '../errors.js'
import type { CacheOutcome, Outcome, ServerNameRefusal } from '../outcome.js'
import { sentence } from '../pipeline/error-page.js'
import type { DecisionEvent, ExchangeObserver, Subject } from '../pipeline/exchange-observer.js'
import { createIsoTime, member } from './event-line.js'
import { isFailure } from './failure-reasons.js'
import { LOG_SCHEMA } from './log.js'

const END = '}\n'

export interface AccessLogOptions {
  readonly logger: Logger
  /** `omit` cuts the path at its `?`. */
  readonly query: 'omit' | 'include'
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

export class AccessLog implements ExchangeObserver {
  readonly ignoresAllowed: boolean
  readonly #write: (line: string) => void
  readonly #time: () => string
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
    this.ignoresAllowed = !this.#infoEnabled
    this.#warnEnabled = logger.isLevelEnabled('warn')
  }

  /** Refusals are warnings, including those that are only observed, so that a log at level warn contains them. */
  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    const denied = event.decision !== 'allow'
    if (!(denied ? this.#warnEnabled : this.#infoEnabled)) return
    this.#write(
      this.#commonMembers(denied ? 'warn' : 'info', 'decision', subject) +
        `,"decision":"${event.decision}"` +
        member('rule', event.rule) +
        member('reason', event.reason) +
        member('would_deny', event.wouldDeny) +
        member('detail', event.refusal && sentence(event.refusal)) +
        member('dns_ms', round(event.dnsMs)) +
        member('config_hash', configHash) +
        END,
    )
  }

  /**
   * A failure is a warning, and so is the end of a tunnel that is cut for its server name, because its decision was to allow
   * it. A log at level warn therefore contains every request that did not get what it asked for.
   */
  close(subject: Subject, outcome: Outcome, durationMs: number, decision?: DecisionEvent): void {
    const { error } = outcome
    const warns =
      outcome.serverName !== undefined || (error !== undefined && isWarning(outcome, error, decision))
    if (!(warns ? this.#warnEnabled : this.#infoEnabled)) return
    this.#write(
      this.#commonMembers(warns ? 'warn' : 'info', 'close', subject) +
        `,"handler":"${outcome.handler}","status":${outcome.status},"close_reason":"${outcome.closeReason}"` +
        member('error', error?.type) +
        member('reason', error?.reason ?? outcome.serverName?.fault) +
        member('limit', outcome.limit) +
        // The decision event of a refused request already has the detail.
        (error === undefined || decision?.decision === 'deny' ? '' : failureMembers(error)) +
        (outcome.serverName === undefined ? '' : serverNameMembers(outcome.serverName)) +
        member('cause', internalCause(error)) +
        member('address', outcome.address) +
        member('parent', outcome.parent) +
        (outcome.cache === undefined ? '' : cacheMembers(outcome.cache)) +
        member('connect_ms', round(outcome.connectMs)) +
        member('first_byte_ms', round(outcome.firstByteMs)) +
        `,"bytes_up":${outcome.bytesUp},"bytes_down":${outcome.bytesDown},"duration_ms":${round(durationMs)}${END}`,
    )
  }

  /** The members that both events have in common. Values of closed lists and addresses need no escaping in JSON. */
  #commonMembers(level: string, event: string, subject: Subject): string {
    return (
      `{"level":"${level}","time":"${this.#time()}","schema":${LOG_SCHEMA},"event":"${event}"` +
      member('id', subject.id) +
      member('client', subject.client) +
      member('user', subject.user) +
      `,"client_address":"${subject.clientAddress}","kind":"${subject.kind}"` +
      member('method', subject.method) +
      member('host', subject.host) +
      member('port', subject.port) +
      member('path', this.#path(subject.path))
    )
  }

  #path(path: string | undefined): string | undefined {
    return path === undefined || this.#includesQuery ? path : withoutQuery(path)
  }
}

/** A request whose content broke off is not a failure of ours, but its decision event did not report it either. */
function isWarning({ closeReason }: Outcome, error: ProxyError, event: DecisionEvent | undefined): boolean {
  const decision = event?.decision ?? 'allow'
  return isFailure(error, decision) || (closeReason === 'failed' && decision !== 'deny')
}

function cacheMembers({ result, stored, detail }: CacheOutcome): string {
  return `,"cache":"${result}"${stored ? ',"cache_stored":true' : ''}${member('cache_detail', detail)}`
}

function failureMembers(error: ProxyError): string {
  return member('detail', sentence(error)) + member('code', systemCode(error.cause))
}

/** The error code of DNS, the system or OpenSSL. */
function systemCode(cause: unknown): string | undefined {
  return cause instanceof ProxyError ? systemCode(cause.cause) : errorCode(cause)
}

function serverNameMembers(serverName: ServerNameRefusal): string {
  return member('detail', describeCut(serverName)) + member('server_name', serverName.sent)
}

/** Says in a sentence why a tunnel was cut. */
export function describeCut({ sent }: ServerNameRefusal): string {
  const name = sent === undefined ? '' : ` "${sent.replace(/[^\x20-\x7e]/g, '?')}"`
  return `The tunnel was cut for its TLS server name${name}: sni is verify, in connect or in its rule.`
}

/** The stack of an internal error. The type of any other error already names its cause. */
function internalCause(error: ProxyError | undefined): string | undefined {
  if (error?.type !== 'proxy_internal_error') return undefined
  const { cause } = error
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}

/** Rounds milliseconds to three decimal places. */
function round(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000
}

/** The start of a query or a fragment, either of which may contain secrets; only refused targets have a fragment. */
const QUERY = /[?#]/

/** @param target a path, or the target of a refused request */
export function withoutQuery(target: string): string {
  const query = target.search(QUERY)
  return query === -1 ? target : target.slice(0, query)
}
