import { Histogram as LibraryHistogram, Registry } from 'prom-client'
import t from 'tap'
import { type ReportedMetric, serializeMetrics } from '../../src/observe/exposition.js'
import { ClosedCounter, Histogram, metric } from '../../src/observe/series.js'
import { parseExposition } from '../kit/peers/exposition.js'

const scrape = async (...metrics: ReportedMetric[]) =>
  parseExposition((await serializeMetrics([metrics], 'text')).text, 'text')

t.test('every value of a closed counter is there from the start, at 0', async t => {
  const counter = new ClosedCounter('a_total', 'A.', 'b', ['x', 'y'])
  t.same(
    [...((await scrape(counter.report())).families.get('a_total')?.samples ?? [])],
    [
      ['a_total{b="x"}', 0],
      ['a_total{b="y"}', 0],
    ],
  )
})

t.test('a counter counts, and counts the same however often it is read', async t => {
  const counter = new ClosedCounter('a_total', 'A.', 'b', ['x', 'y'])
  counter.add('x')
  for (let i = 0; i < 5; i++) counter.add('y')
  counter.report()
  counter.add('x')
  for (const report of [counter.report(), counter.report()]) {
    t.same((await scrape(report)).counted('a_total'), { 'a_total{b="x"}': 2, 'a_total{b="y"}': 5 })
  }
})

t.test('no value is added to the list: others count as other, or not at all', async t => {
  const counter = new ClosedCounter('a_total', 'A.', 'b', ['x', 'other'])
  for (const value of ['z', 'constructor', '__proto__', '', 'X']) counter.add(value)
  t.same((await scrape(counter.report())).counted('a_total'), { 'a_total{b="other"}': 5 })
  const strict = new ClosedCounter('a_total', 'A.', 'b', ['x'])
  strict.add('z')
  t.same((await scrape(strict.report())).counted('a_total'), {})
})

t.test('a histogram reports what the library reports of its own, on the bounds too', async t => {
  const registry = new Registry()
  const buckets = [0.1, 1, 10]
  const theirs = new LibraryHistogram({ name: 'a_seconds', help: 'A.', buckets, registers: [registry] })
  const ours = new Histogram('a_seconds', 'A.', buckets)
  const compare = async (what: string) => {
    const [expected] = (await registry.getMetricsAsJSON()) as unknown as ReportedMetric[]
    t.same((await scrape(ours.report())).families, (await scrape(expected as ReportedMetric)).families, what)
  }
  await compare('before anything was observed')
  for (const seconds of [0, 0.1, 0.100001, 0.5, 1, 9.99, 10, 10.1, 3600, 0.1]) {
    theirs.observe(seconds)
    ours.observe(seconds)
    await compare(String(seconds))
  }
})

t.test('a metric says how the values of several reports become one', async t => {
  const reports = [1, 2].map(value => [metric('gauge', 'a', 'A.', [[{ b: 'c' }, value]], 'min')])
  const { text } = await serializeMetrics(reports, 'text')
  t.equal(parseExposition(text, 'text').value('a{b="c"}'), 1)
})
