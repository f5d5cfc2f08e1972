/**
 * How the cache does: what is stored, and what it has answered. Each worker tells it of itself as plain JSON; together they
 * have one store, or one each.
 */
import type { CacheConfig } from '../config/cache.js'
import type { CacheResult } from '../outcome.js'
import type { CacheStats, CacheStore } from '../upstream/cache/store.js'
import type { MetricsReport } from './exposition.js'
import { metric } from './series.js'

/** The store that is in force, as far as operators see it. */
export interface OperatedCache extends Pick<CacheStore, 'stats' | 'purge'> {
  readonly kind: CacheConfig['store']
  /** What it keeps to; undefined for Redis, which keeps to a bound of its own. */
  readonly sizeBytes: number | undefined
}

/** What has been counted of requests that the cache was asked for. */
export interface CacheCounts {
  readonly results: Readonly<Record<CacheResult, number>>
  /** Content bytes of the answers it has given. */
  readonly servedBytes: number
}

export interface CacheReport extends CacheStats, CacheCounts {
  readonly store: CacheConfig['store']
  readonly sizeBytes: number | undefined
}

export async function reportCache(
  cache: OperatedCache | undefined,
  counts: CacheCounts,
): Promise<CacheReport | undefined> {
  if (cache === undefined) return undefined
  const { kind: store, sizeBytes } = cache
  return { store, sizeBytes, ...(await cache.stats()), ...counts }
}

/** Results without content from upstream for this request alone. */
const ANSWERED: ReadonlySet<CacheResult> = new Set(['hit', 'stale_hit', 'revalidated', 'collapsed'])
/** The cache was not asked, as the request is none for it, or the configuration says so. */
const PASSED: ReadonlySet<CacheResult> = new Set(['method', 'bypass'])

/** Whether the cache answered. */
export function isAnswered(result: CacheResult): boolean {
  return ANSWERED.has(result)
}

/** @returns the part of requests that the cache answered of those that it could have, from 0 to 1; undefined without any */
export function hitRatio(results: CacheCounts['results']): number | undefined {
  let answered = 0
  let asked = 0
  for (const [result, count] of Object.entries(results) as [CacheResult, number][]) {
    if (isAnswered(result)) answered += count
    if (!PASSED.has(result)) asked += count
  }
  return asked === 0 ? undefined : answered / asked
}

/** Those of several workers: memory is of each, and the store on disk or in Redis is the same for all. */
export function mergeCaches(reports: readonly CacheReport[]): CacheReport | undefined {
  const [first, ...others] = reports
  return first && others.reduce(joined, first)
}

function joined(a: CacheReport, b: CacheReport): CacheReport {
  // For the moments in which a reload has come to one of two workers.
  if (a.store !== b.store) return a
  const add = (x: number, y: number): number => x + y
  const stored = a.store === 'memory' ? add : Math.max
  const results = Object.entries(a.results).map(([result, count]) => [
    result,
    count + b.results[result as CacheResult],
  ])
  return {
    store: a.store,
    sizeBytes: a.sizeBytes && b.sizeBytes && stored(a.sizeBytes, b.sizeBytes),
    entries: stored(a.entries, b.entries),
    bytes: stored(a.bytes, b.bytes),
    // Redis itself evicts; files are evicted by one worker or another.
    evictions: a.store === 'redis' ? Math.max(a.evictions, b.evictions) : a.evictions + b.evictions,
    up: a.up && b.up,
    results: Object.fromEntries(results) as CacheReport['results'],
    servedBytes: a.servedBytes + b.servedBytes,
  }
}

/** The metrics of the store; those of what it answered are among those of exchanges. */
export async function cacheMetrics(cache: OperatedCache | undefined): Promise<MetricsReport> {
  if (cache === undefined) return []
  const { entries, bytes, evictions, up } = await cache.stats()
  const stored = cache.kind === 'memory' ? 'sum' : 'max'
  const evicted = cache.kind === 'redis' ? 'max' : 'sum'
  return [
    metric('gauge', 'sluice_cache_entries', 'Responses that are stored.', [[{}, entries]], stored),
    metric('gauge', 'sluice_cache_bytes', 'Bytes that they take, heads included.', [[{}, bytes]], stored),
    metric(
      'counter',
      'sluice_cache_evictions_total',
      'Responses that were evicted to make room for others.',
      [[{}, evictions]],
      evicted,
    ),
    metric('gauge', 'sluice_cache_up', 'Whether the store can be used.', [[{}, up ? 1 : 0]], 'min'),
  ]
}
