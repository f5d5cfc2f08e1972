import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { listUpstreams, reportUpstreams, type UpstreamHealth } from '../../src/observe/upstream-health.js'
import type { RouteHealth } from '../../src/origin/create-origins.js'
import type { Health } from '../../src/upstream/availability.js'
import type { Parent } from '../../src/upstream/parents.js'
import { parseExposition } from '../kit/peers/exposition.js'

t.test('parents come before the upstreams of origins, with what is wrong and since when', async t => {
  const failures = new Map([['connection_refused', 2]] as const)
  const error = new ProxyError('connection_refused', 'connection refused: 10.0.0.5:9999')
  const parents = [
    { upstream: { url: 'http://10.0.0.5:9999' }, outage: { since: 5, lastTried: 8, error }, failures },
  ]
  const origins = [{ route: 'a.test/v1', upstream: { url: 'http://b:1' }, outage: undefined, failures }]
  const listed = listUpstreams(
    parents as unknown as Health<Parent>[],
    origins as unknown as RouteHealth[],
    ms => ms + 1000,
  )
  t.same(listed, [
    {
      route: 'parent',
      upstream: 'http://10.0.0.5:9999',
      up: false,
      downSinceMs: 1005,
      lastTriedMs: 1008,
      error: 'connection refused: 10.0.0.5:9999',
      failures,
    },
    {
      route: 'a.test/v1',
      upstream: 'http://b:1',
      up: true,
      downSinceMs: undefined,
      lastTriedMs: undefined,
      error: undefined,
      failures,
    },
  ])
})

t.test('each upstream is up or down, with its failures by error', async t => {
  let health: UpstreamHealth[] = [
    {
      route: 'a.test/',
      upstream: 'http://10.0.0.1:80',
      up: true,
      downSinceMs: undefined,
      lastTriedMs: undefined,
      error: undefined,
      failures: new Map(),
    },
    {
      route: 'a.test/',
      upstream: 'http://10.0.0.2:80',
      up: false,
      downSinceMs: 1,
      lastTriedMs: 1,
      error: 'connection refused',
      failures: new Map([
        ['connection_refused', 2],
        ['dns_error', 1],
      ]),
    },
  ]
  const scrape = async () =>
    parseExposition((await serializeMetrics([reportUpstreams(health)], 'text')).text, 'text')
  const labels = (port: number) => `route="a.test/",upstream="http://10.0.0.${port}:80"`
  for (const scraped of [await scrape(), await scrape()]) {
    t.equal(scraped.value(`sluice_upstream_up{${labels(1)}}`), 1)
    t.equal(scraped.value(`sluice_upstream_up{${labels(2)}}`), 0)
    t.same(scraped.counted('sluice_upstream_failures_total'), {
      [`sluice_upstream_failures_total{${labels(2)},error="connection_refused"}`]: 2,
      [`sluice_upstream_failures_total{${labels(2)},error="dns_error"}`]: 1,
    })
  }
  health = health.slice(0, 1)
  const left = await scrape()
  t.equal(left.families.get('sluice_upstream_up')?.samples.size, 1, 'what is gone is not told of')
  t.equal(left.families.get('sluice_upstream_failures_total')?.samples.size, 0)
})
