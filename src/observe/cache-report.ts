/**
 * The state of the cache: what is stored, and how many requests it answered. Each worker reports its own as plain JSON. With
 * `memory` each worker has a store of its own; with `disk` and `redis` they share one.
 */
import type { CacheConfig } from '../config/cache.js'
import type { CacheResult } from '../outcome.js'
import type { CacheStats, CacheStore } from '../upstream/cache/store.js'
import type { MetricsReport } from './exposition.js'
import { metric } from './series.js'

/** The store in use, as operators see it. */
export interface OperatedCache extends Pick<CacheStore, 'stats' | 'purge'> {
  readonly kind: CacheConfig['store']
  /** The most bytes that it holds; undefined for Redis, which has a limit of its own. */
  readonly sizeBytes: number | undefined
}

/** Counts of the requests that reached the cache. */
export interface CacheCounts {
  readonly results: Readonly<Record<CacheResult, number>>
  /** Content bytes of the responses served from the cache. */
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

/** The results of requests that were served without fetching content from upstream for them. */
const ANSWERED: ReadonlySet<CacheResult> = new Set(['hit', 'stale_hit', 'revalidated', 'collapsed'])
/** The results of requests that bypass the cache, because of their method or of the configuration. */
const BYPASSED: ReadonlySet<CacheResult> = new Set(['method', 'bypass'])

/** Whether a request with this result was answered from the cache. */
export function isAnswered(result: CacheResult): boolean {
  return ANSWERED.has(result)
}

/** @returns the share of the cacheable requests that the cache answered, from 0 to 1; undefined if there were none */
export function hitRatio(results: CacheCounts['results']): number | undefined {
  let answered = 0
  let cacheable = 0
  for (const [result, count] of Object.entries(results) as [CacheResult, number][]) {
    if (isAnswered(result)) answered += count
    if (!BYPASSED.has(result)) cacheable += count
  }
  return cacheable === 0 ? undefined : answered / cacheable
}

/** Merges the reports of several workers: stores in memory are added up, and a store on disk or in Redis is counted once. */
export function mergeCaches(reports: readonly CacheReport[]): CacheReport | undefined {
  const [first, ...others] = reports
  return first && others.reduce(merge, first)
}

function merge(a: CacheReport, b: CacheReport): CacheReport {
  // For a moment during a reload, one worker may have the new store and another one the old.
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
    // Redis evicts by itself and all workers report its count; a file is evicted by one of the workers.
    evictions: a.store === 'redis' ? Math.max(a.evictions, b.evictions) : a.evictions + b.evictions,
    up: a.up && b.up,
    results: Object.fromEntries(results) as CacheReport['results'],
    servedBytes: a.servedBytes + b.servedBytes,
  }
}

/** The metrics of the store. How many requests it answered is among the metrics of exchanges. */
export async function cacheMetrics(cache: OperatedCache | undefined): Promise<MetricsReport> {
  if (cache === undefined) return []
  const { entries, bytes, evictions, up } = await cache.stats()
  const stored = cache.kind === 'memory' ? 'sum' : 'max'
  const evicted = cache.kind === 'redis' ? 'max' : 'sum'
  return [
    metric('gauge', 'sluice_cache_entries', 'Stored responses.', [[{}, entries]], stored),
    metric(
      'gauge',
      'sluice_cache_bytes',
      'Bytes of the stored responses, including their heads.',
      [[{}, bytes]],
      stored,
    ),
    metric(
      'counter',
      'sluice_cache_evictions_total',
      'Responses evicted to make room for others.',
      [[{}, evictions]],
      evicted,
    ),
    metric('gauge', 'sluice_cache_up', 'Whether the store can be used.', [[{}, up ? 1 : 0]], 'min'),
  ]
}
