import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { type MetricsReport, serializeMetrics } from '../../src/observe/exposition.js'
import { PastCounts } from '../../src/observe/past-counts.js'
import { parseExposition } from '../kit/peers/exposition.js'

/** @param label of all values */
async function report(label: string, count: number): Promise<MetricsReport> {
  const registers = [new Registry()]
  const labelNames = ['of']
  new Counter({ name: 'c_total', help: 'C.', labelNames, registers }).inc({ of: label }, count)
  new Gauge({ name: 'g', help: 'G.', registers }).set(count)
  const histogram = new Histogram({ name: 'h', help: 'H.', labelNames, registers, buckets: [1, 10] })
  for (let i = 0; i < count; i++) histogram.observe({ of: label }, 5)
  return structuredClone(await registers[0]?.getMetricsAsJSON()) as unknown as MetricsReport
}

t.test('counts add up by label and bucket, and what was only measured is gone', async t => {
  const past = new PastCounts()
  t.same(past.report(), [])
  const first = await report('a', 2)
  for (const one of [first, await report('a', 3), await report('b', 4)]) past.add(one)
  t.same(first, await report('a', 2), 'what was given stays as it is')
  const { text } = await serializeMetrics([past.report(), await report('a', 1)], 'text')
  const metrics = parseExposition(text, 'text')
  t.equal(metrics.value('c_total{of="a"}'), 6)
  t.equal(metrics.value('c_total{of="b"}'), 4)
  t.equal(metrics.value('g'), 1)
  t.equal(metrics.value('h_bucket{le="1",of="a"}'), 0)
  t.equal(metrics.value('h_bucket{le="10",of="a"}'), 6)
  t.equal(metrics.value('h_sum{of="a"}'), 30)
  t.equal(metrics.value('h_count{of="b"}'), 4)
})
