/** What several workers report as one: rates are added, tunnels listed together, refusals of the same kind counted together. */
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

/** How many tunnels are told one by one. */
export const MAX_TUNNELS = 500
/** Of how many clients it is told how many tunnels they have, and of how many each worker tells it: some are of several. */
const MAX_SHARES = 10
export const MAX_WORKER_SHARES = 100
/** A worker that is so many seconds behind is not waited for: its traffic is taken for none. */
const MAX_BEHIND = 3

export function mergeStatus(workers: readonly WorkerStatus[]): MergedStatus {
  return {
    traffic: mergeTraffic(workers.map(({ traffic }) => traffic)),
    latencies: mergeLatencies(workers.map(({ latencies }) => latencies)),
    tunnels: mergeTunnels(workers.map(({ tunnels }) => tunnels)),
    shares: mergeShares(
      workers.flatMap(({ shares }) => shares),
      MAX_SHARES,
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

/** Second by second, up to the last that all have told. */
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
  // The oldest first: an order that lasts.
  listed.sort((a, b) => b.ageMs - a.ageMs)
  return { open: all.reduce((sum, { open }) => sum + open, 0), listed }
}

function keyOfDenial(group: DenialGroup): readonly unknown[] {
  const { client, user, kind, method, host, port, decision, reason, rule, yaml } = group
  return [client, user, kind, method, host, port, decision, reason, rule, yaml]
}

function keyOfFailure({ kind, host, port, rule, reason, parent }: FailureGroup): readonly unknown[] {
  return [kind, host, port, rule, reason, parent]
}

/** Down as soon as one of the workers cannot reach it, since the first of those has found that out. */
function mergeUpstreams(all: readonly UpstreamStatus[]): UpstreamStatus[] {
  const merged = new Map<string, UpstreamStatus>()
  for (const status of all) {
    const key = JSON.stringify([status.route, status.upstream])
    const known = merged.get(key)
    const { up, downSinceMs, error } = known === undefined ? status : worse(known, status)
    const failures = status.failures + (known?.failures ?? 0)
    merged.set(key, { ...status, up, downSinceMs, error, failures })
  }
  return [...merged.values()]
}

function worse(a: UpstreamStatus, b: UpstreamStatus): UpstreamStatus {
  return (a.downSinceMs ?? Number.POSITIVE_INFINITY) <= (b.downSinceMs ?? Number.POSITIVE_INFINITY) ? a : b
}
