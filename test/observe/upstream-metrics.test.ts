import t from 'tap'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { reportUpstreams } from '../../src/observe/upstream-metrics.js'
import type { UpstreamHealth } from '../../src/origin/create-origins.js'
import { parseExposition } from '../kit/peers/exposition.js'

t.test('each upstream is up or down, with its failures by error', async t => {
  let health: UpstreamHealth[] = [
    { route: 'a.test/', upstream: 'http://10.0.0.1:80', up: true, failures: new Map() },
    {
      route: 'a.test/',
      upstream: 'http://10.0.0.2:80',
      up: false,
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
