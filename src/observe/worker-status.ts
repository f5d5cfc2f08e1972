/**
 * How one worker does: plain JSON values, so that it can be passed between processes. What several of them report is
 * merged in merge-status.
 */
import type { CacheReport } from './cache-report.js'
import type { DecisionEvent, ExchangeKind } from '../pipeline/exchange-observer.js'
import type { ListedTunnels, TunnelShare } from '../tunnel/registry.js'
import type { Counted, Grouped } from './recent-groups.js'
import type { UpstreamHealth } from './upstream-health.js'

/** Refusals of the same request for the same reason. */
export interface DenialGroup extends Counted {
  readonly client: string | undefined
  /** Who of that client; undefined where nobody has shown who they are. */
  readonly user: string | undefined
  /** The last that it came from. */
  readonly clientAddress: string
  readonly kind: ExchangeKind
  readonly method: string
  readonly host: string | undefined
  readonly port: number | undefined
  readonly decision: Exclude<DecisionEvent['decision'], 'allow'>
  readonly reason: string
  readonly rule: string | undefined
  /** Sentences: what refused it, and what would allow it. */
  readonly detail: string | undefined
  /** What the configuration would have to say. */
  readonly yaml: string | undefined
}

export type Denials = Grouped<DenialGroup>

/** Requests to the same target that failed for the same reason. */
export interface FailureGroup extends Counted {
  readonly kind: ExchangeKind
  readonly host: string | undefined
  readonly port: number | undefined
  /** What allowed them: a rule, or the key of an origin. */
  readonly rule: string | undefined
  readonly reason: string
  /** The URL of the parent proxy that was asked; undefined where none was. */
  readonly parent: string | undefined
  /** The last of the clients, as far as it is known. */
  readonly client: string | undefined
  readonly user: string | undefined
  readonly clientAddress: string
  /** Sentences: what the last of the clients was told. */
  readonly detail: string
}

export type Failures = Grouped<FailureGroup>

/** What is sampled once a second. All but `tunnels`, which is how many are open, are numbers per second. */
export const SERIES = ['requests', 'denied', 'failed', 'opened', 'bytesUp', 'bytesDown', 'tunnels'] as const

/** The last seconds, the oldest first; all lists are as long. */
export interface Traffic extends Readonly<Record<(typeof SERIES)[number], readonly number[]>> {
  /** The second that the last samples are of, since the epoch. */
  readonly endSecond: number
}

/** What is measured of exchanges, in milliseconds. */
export const LATENCIES = ['dns', 'dial', 'firstByte'] as const

/** How often each bucket of latency-window was met in the last minutes. */
export type Latencies = Readonly<Record<(typeof LATENCIES)[number], readonly number[]>>

/** One parent proxy, or one upstream of `origins`. */
export interface UpstreamStatus
  extends Pick<UpstreamHealth, 'route' | 'upstream' | 'up' | 'downSinceMs' | 'error'> {
  readonly failures: number
}

export interface WorkerStatus {
  /** Its number, from 1 on; no other worker of this start, before or after, has it. */
  readonly worker: number
  /** Of its process; undefined where that is not told. */
  readonly pid: number | undefined
  /** Milliseconds since the epoch. */
  readonly startedMs: number
  readonly configHash: string
  /** The part of the last second in which the event loop was busy, from 0 to 1. */
  readonly busy: number
  readonly traffic: Traffic
  readonly latencies: Latencies
  readonly tunnels: ListedTunnels
  /** Of the clients that have the most tunnels. */
  readonly shares: readonly TunnelShare[]
  readonly denials: Denials
  readonly failures: Failures
  readonly upstreams: readonly UpstreamStatus[]
  /** Undefined while nothing is stored anywhere. */
  readonly cache: CacheReport | undefined
}

/** The last reload of the configuration. */
export interface ReloadState {
  readonly result: 'applied' | 'rejected'
  /** Milliseconds since the epoch. */
  readonly timeMs: number
  /** Of the configuration that has been in force since. */
  readonly hash: string
  /** Why it was rejected, `file:line:column: path: message` each; empty when it was not. */
  readonly problems: readonly string[]
}
