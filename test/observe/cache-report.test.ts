import t from 'tap'
import {
  type CacheCounts,
  cacheMetrics,
  type CacheReport,
  hitRatio,
  mergeCaches,
  type OperatedCache,
  reportCache,
} from '../../src/observe/cache-report.js'
import { type MetricsReport, serializeMetrics } from '../../src/observe/exposition.js'
import { CACHE_RESULTS, type CacheResult } from '../../src/outcome.js'
import { PastCounts } from '../../src/supervisor/fleet-metrics.js'
import { UNSTORED } from '../../src/upstream/cache/storing.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { readSection } from '../kit/readmes.js'

t.test('the README of the cache lists every result, and why a response is not stored', async t => {
  const section = readSection('src/upstream/cache/README.md', 'Results')
  const [results = '', details = ''] = section.split('by `detail`')
  const firstColumn = (table: string): string[] =>
    [...table.matchAll(/^(?:\||-) (`[^|:]*)(?: \||:)/gm)].flatMap(([, words = '']) =>
      [...words.matchAll(/`([\w-]+)`/g)].map(([, word = '']) => word),
    )
  t.same(firstColumn(results), ['result', ...CACHE_RESULTS])
  t.same(firstColumn(details).sort(), [...UNSTORED].sort())
})

const NOTHING = Object.fromEntries(CACHE_RESULTS.map(result => [result, 0])) as CacheCounts['results']
const counted = (some: Partial<Record<CacheResult, number>>) => ({ ...NOTHING, ...some })

const cache = (
  kind: OperatedCache['kind'],
  stats: { entries: number; bytes: number; evictions: number; up: boolean },
): OperatedCache => ({
  kind,
  sizeBytes: kind === 'redis' ? undefined : 100,
  stats: async () => stats,
  purge: async () => 0,
})

async function scraped(...reports: MetricsReport[]) {
  const { families } = parseExposition((await serializeMetrics(reports, 'text')).text, 'text')
  return Object.fromEntries(
    ['entries', 'bytes', 'evictions_total', 'up'].map(name => [
      name,
      families.get(`sluice_cache_${name}`)?.samples.get(`sluice_cache_${name}`),
    ]),
  )
}

t.test('memory of several workers is added, a store that they share is one', async t => {
  const stats = { entries: 2, bytes: 30, evictions: 5, up: true }
  const other = { entries: 3, bytes: 20, evictions: 7, up: false }
  for (const [kind, entries, bytes, evictions, size] of [
    ['memory', 5, 50, 12, 200],
    ['disk', 3, 30, 12, 100],
    ['redis', 3, 30, 7, undefined],
  ] as const) {
    const metrics = await Promise.all([cache(kind, stats), cache(kind, other)].map(cacheMetrics))
    t.same(await scraped(...metrics), { entries, bytes, evictions_total: evictions, up: 0 }, kind)
    const reports = await Promise.all(
      [stats, other].map(each => reportCache(cache(kind, each), { results: NOTHING, servedBytes: 4 })),
    )
    t.same(
      mergeCaches(reports.flatMap(report => report ?? [])),
      {
        store: kind,
        sizeBytes: size,
        entries,
        bytes,
        evictions,
        up: false,
        results: NOTHING,
        servedBytes: 8,
      },
      kind,
    )
  }
})

t.test('what it is off has no metrics of a store, and nothing to report', async t => {
  t.same(await cacheMetrics(undefined), [])
  t.equal(await reportCache(undefined, { results: NOTHING, servedBytes: 0 }), undefined)
  t.equal(mergeCaches([]), undefined)
})

t.test('what it answered is counted together, whatever store it is', async t => {
  const report = (results: Partial<Record<CacheResult, number>>): CacheReport => ({
    store: 'disk',
    sizeBytes: 100,
    entries: 0,
    bytes: 0,
    evictions: 0,
    up: true,
    results: counted(results),
    servedBytes: 0,
  })
  const merged = mergeCaches([report({ hit: 1, uri_miss: 2 }), report({ hit: 3, method: 4 }), report({})])
  t.same(merged?.results, counted({ hit: 4, uri_miss: 2, method: 4 }))
})

t.test('the hit ratio is of requests that the cache could have answered', async t => {
  t.equal(hitRatio(NOTHING), undefined)
  t.equal(hitRatio(counted({ method: 3, bypass: 2 })), undefined)
  t.equal(hitRatio(counted({ hit: 1, method: 3, bypass: 2 })), 1)
  t.equal(hitRatio(counted({ hit: 1, stale_hit: 1, revalidated: 1, collapsed: 1, uri_miss: 4 })), 0.5)
  t.equal(hitRatio(counted({ vary_miss: 1, stale: 1, request: 1, partial: 1, only_if_cached: 1 })), 0)
})

t.test('evictions of a server that workers share count once, when workers have ended too', async t => {
  const told = (kind: OperatedCache['kind'], evictions: number) =>
    cacheMetrics(cache(kind, { entries: 0, bytes: 0, evictions, up: true }))
  for (const [kind, total] of [
    ['redis', 6],
    ['disk', 4 + 5 + 6],
  ] as const) {
    const past = new PastCounts()
    past.add(await told(kind, 4))
    past.add(await told(kind, 5))
    t.equal((await scraped(past.report(), await told(kind, 6)))['evictions_total'], total, kind)
  }
})
