/**
 * The status of one worker: plain JSON values, so that it can be passed between processes. merge-status merges the status of
 * several workers.
 */
import type { RemedyStep } from '../advice/remedy.js'
import type { CacheReport } from './cache-report.js'
import type { DecisionEvent, ExchangeKind } from '../pipeline/exchange-observer.js'
import type { ListedTunnels, TunnelShare } from '../tunnel/registry.js'
import type { Counted, Grouped } from './recent-groups.js'
import type { UpstreamHealth } from './upstream-health.js'

/** Refusals of the same request for the same reason. */
export interface DenialGroup extends Counted {
  readonly client: string | undefined
  /** The authenticated user of that client; undefined if there was none. */
  readonly user: string | undefined
  /** The address of the last of these requests. */
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
  /** What the configuration would have to say; empty where no line would allow it, or none is drafted. */
  readonly remedy: readonly RemedyStep[]
}

export type Denials = Grouped<DenialGroup>

/** Requests to the same target that failed for the same reason. */
export interface FailureGroup extends Counted {
  readonly kind: ExchangeKind
  readonly host: string | undefined
  readonly port: number | undefined
  /** The rule that allowed them, or the key of the origin. */
  readonly rule: string | undefined
  readonly reason: string
  /** The URL of the last parent proxy that was tried; undefined if there was none. */
  readonly parent: string | undefined
  /** The client of the last of these requests, as far as it is known. */
  readonly client: string | undefined
  readonly user: string | undefined
  readonly clientAddress: string
  /** Sentences: what the last client was told. */
  readonly detail: string
}

export type Failures = Grouped<FailureGroup>

/** The series that are sampled once a second: how many there were in it, except `tunnels`, the number of open tunnels. */
export const SERIES = [
  'requests',
  'denied',
  'wouldDeny',
  'failed',
  'opened',
  'bytesUp',
  'bytesDown',
  'tunnels',
] as const

/** The samples of the last seconds, the oldest first; all lists have the same length. */
export interface Traffic extends Readonly<Record<(typeof SERIES)[number], readonly number[]>> {
  /** The second of the last samples, since the epoch. */
  readonly endSecond: number
}

/** The durations of exchanges that are measured, in milliseconds. */
export const LATENCIES = ['dns', 'dial', 'firstByte'] as const

/** The counts of the buckets of LatencyWindow in the last minutes. */
export type Latencies = Readonly<Record<(typeof LATENCIES)[number], readonly number[]>>

/** One parent proxy, or one upstream of `origins`. */
export interface UpstreamStatus
  extends Pick<UpstreamHealth, 'route' | 'upstream' | 'up' | 'downSinceMs' | 'lastTriedMs' | 'error'> {
  readonly failures: number
}

export interface WorkerStatus {
  /** The number of the worker, from 1; a worker that replaces another one has a new number. */
  readonly worker: number
  /** The id of its process; undefined if that is not known. */
  readonly pid: number | undefined
  /** Milliseconds since the epoch. */
  readonly startedMs: number
  readonly configHash: string
  /** The share of the last second in which the event loop was busy, from 0 to 1. */
  readonly busy: number
  readonly traffic: Traffic
  readonly latencies: Latencies
  readonly tunnels: ListedTunnels
  /** The clients with the most tunnels. */
  readonly shares: readonly TunnelShare[]
  readonly denials: Denials
  readonly failures: Failures
  readonly upstreams: readonly UpstreamStatus[]
  /** Undefined while the cache is off. */
  readonly cache: CacheReport | undefined
}

/** The last reload of the configuration. */
export interface ReloadState {
  readonly result: 'applied' | 'rejected'
  /** Milliseconds since the epoch. */
  readonly timeMs: number
  /** The hash of the configuration that is in force since then. */
  readonly hash: string
  /** Why it was rejected, each as `file:line:column: path: message`; empty if it was applied. */
  readonly problems: readonly string[]
}
