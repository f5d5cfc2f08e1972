/**
 * Merges the status of several workers: traffic is added up, tunnels are listed together, and refusals and failures of the
 * same kind are counted together.
 */
import { type ListedTunnels, mergeShares } from '../tunnel/registry.js'
import { mergeCaches } from './cache-report.js'
import { TRAFFIC_SECONDS } from './status-recorder.js'
import { mergeGroups } from './recent-groups.js'
import {
  type DenialGroup,
  type FailureGroup,
  LATENCIES,
  type Latencies,
  SERIES,
  type Traffic,
  type UpstreamStatus,
  type WorkerStatus,
} from './worker-status.js'

export type MergedStatus = Pick<
  WorkerStatus,
  'traffic' | 'latencies' | 'tunnels' | 'shares' | 'denials' | 'failures' | 'upstreams' | 'cache'
>

/** The most tunnels that are listed. */
export const MAX_TUNNELS = 500
/** The most clients whose number of tunnels each worker reports, and that are kept for all workers together. */
export const MAX_WORKER_SHARES = 100
/** A worker that is more seconds behind than this is not waited for: its traffic since then counts as 0. */
const MAX_BEHIND = 3

export function mergeStatus(workers: readonly WorkerStatus[]): MergedStatus {
  return {
    traffic: mergeTraffic(workers.map(({ traffic }) => traffic)),
    latencies: mergeLatencies(workers.map(({ latencies }) => latencies)),
    tunnels: mergeTunnels(workers.map(({ tunnels }) => tunnels)),
    shares: mergeShares(
      workers.flatMap(({ shares }) => shares),
      MAX_WORKER_SHARES,
    ),
    denials: mergeGroups(
      workers.map(({ denials }) => denials),
      keyOfDenial,
    ),
    failures: mergeGroups(
      workers.map(({ failures }) => failures),
      keyOfFailure,
    ),
    upstreams: mergeUpstreams(workers.flatMap(({ upstreams }) => upstreams)),
    cache: mergeCaches(workers.flatMap(({ cache }) => cache ?? [])),
  }
}

/** Adds up the samples of each second, up to the last second that all workers have reported. */
function mergeTraffic(all: readonly Traffic[]): Traffic {
  const ends = all.map(({ endSecond }) => endSecond)
  const endSecond = all.length === 0 ? 0 : Math.max(Math.min(...ends), Math.max(...ends) - MAX_BEHIND)
  const starts = all.map(traffic => traffic.endSecond - traffic.requests.length)
  const length = Math.min(TRAFFIC_SECONDS, Math.max(0, ...starts.map(start => endSecond - start)))
  const summed = SERIES.map(name => {
    const sums = new Array<number>(length).fill(0)
    for (const traffic of all) {
      for (const [i, value] of traffic[name].entries()) {
        const second = traffic.endSecond - (traffic[name].length - 1 - i)
        const at = length - 1 - (endSecond - second)
        if (at >= 0 && at < length) sums[at] = (sums[at] ?? 0) + value
      }
    }
    return [name, sums] as const
  })
  return { endSecond, ...(Object.fromEntries(summed) as Record<(typeof SERIES)[number], number[]>) }
}

function mergeLatencies(all: readonly Latencies[]): Latencies {
  const summed = LATENCIES.map(name => {
    const lists = all.map(latencies => latencies[name])
    const length = Math.max(0, ...lists.map(list => list.length))
    const sums = Array.from({ length }, (_, i) => lists.reduce((sum, list) => sum + (list[i] ?? 0), 0))
    return [name, sums] as const
  })
  return Object.fromEntries(summed) as Record<(typeof LATENCIES)[number], number[]>
}

function mergeTunnels(all: readonly ListedTunnels[]): ListedTunnels {
  const listed = all
    .flatMap(tunnels => tunnels.listed)
    .sort((a, b) => b.bytesUp + b.bytesDown - (a.bytesUp + a.bytesDown))
    .slice(0, MAX_TUNNELS)
  // The oldest first: this order does not change while tunnels are open.
  listed.sort((a, b) => b.ageMs - a.ageMs)
  return { open: all.reduce((sum, { open }) => sum + open, 0), listed }
}

function keyOfDenial(group: DenialGroup): readonly unknown[] {
  const { client, user, kind, method, host, port, decision, reason, rule, remedy } = group
  return [client, user, kind, method, host, port, decision, reason, rule, remedy]
}

function keyOfFailure({ kind, host, port, rule, reason, parent }: FailureGroup): readonly unknown[] {
  return [kind, host, port, rule, reason, parent]
}

/** An upstream is down if one of the workers cannot reach it: since the first of them noticed, with the error of the last. */
function mergeUpstreams(all: readonly UpstreamStatus[]): UpstreamStatus[] {
  const merged = new Map<string, UpstreamStatus>()
  for (const status of all) {
    const key = JSON.stringify([status.route, status.upstream])
    const known = merged.get(key)
    const { up, downSinceMs, lastTriedMs, error } = known === undefined ? status : worse(known, status)
    const failures = status.failures + (known?.failures ?? 0)
    merged.set(key, { ...status, up, downSinceMs, lastTriedMs, error, failures })
  }
  return [...merged.values()]
}

function worse(a: UpstreamStatus, b: UpstreamStatus): UpstreamStatus {
  if (a.downSinceMs === undefined || b.downSinceMs === undefined) return a.downSinceMs === undefined ? b : a
  const last = (a.lastTriedMs ?? 0) >= (b.lastTriedMs ?? 0) ? a : b
  return { ...last, downSinceMs: Math.min(a.downSinceMs, b.downSinceMs) }
}
