import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { type MetricsReport, serializeMetrics } from '../../src/observe/exposition.js'
import { FleetMetrics, PastCounts, type Reporter } from '../../src/supervisor/fleet-metrics.js'
import { type Exposition, parseExposition } from '../kit/peers/exposition.js'
import { counter, gauge } from './counter.js'

class FakeReporter implements Reporter {
  lastReport: MetricsReport | undefined
  /** Its next report. */
  count = 0
  answers: Promise<void> | undefined

  async report(): Promise<void> {
    await this.answers
    this.lastReport = [counter(this.count), gauge(this.count)]
  }
}

function fleet() {
  let late = () => {}
  const isLate = new Promise<void>(resolve => {
    late = resolve
  })
  const metrics = new FleetMetrics({
    configHash: () => 'abc',
    build: { version: '1.2.3', node: '20.0.0' },
    lostLogLines: () => 4,
    process: undefined,
    pause: (_ms, signal) =>
      new Promise(resolve => {
        void isLate.then(resolve)
        signal.addEventListener('abort', () => resolve())
      }),
  })
  t.teardown(() => metrics.close())
  const workers = [new FakeReporter(), new FakeReporter()] as const
  for (const worker of workers) metrics.started(worker)
  const scrape = async (): Promise<Exposition> =>
    parseExposition((await serializeMetrics(await metrics.reports(), 'text')).text, 'text')
  return { metrics, workers, scrape, late }
}

t.test('the metrics of all workers are added up, with those of the supervisor once', async t => {
  const { metrics, workers, scrape } = fleet()
  workers[0].count = 2
  workers[1].count = 3
  metrics.configReloaded('applied')
  metrics.workerRestarted()
  const scraped = await scrape()
  t.equal(scraped.value('a_total'), 5)
  t.equal(scraped.value('a_now'), 5)
  t.equal(scraped.value('sluice_config_reloads_total{result="applied"}'), 1)
  t.equal(scraped.value('sluice_worker_restarts_total'), 1)
  t.equal(scraped.value('sluice_log_lines_lost_total'), 4)
  t.equal(scraped.value('sluice_config_info{hash="abc"}'), 1)
  t.equal(scraped.value('sluice_build_info{version="1.2.3",node="20.0.0"}'), 1)
})

t.test('no total falls when a worker ends, and no part of it is counted twice', async t => {
  const { metrics, workers, scrape } = fleet()
  const [first, second] = workers
  first.count = 2
  second.count = 3
  await scrape()
  first.count = 7
  metrics.ended(first)
  const after = await scrape()
  t.equal(after.value('a_total'), 5, 'what it counted after it was asked is lost')
  t.equal(after.value('a_now'), 3)
  const next = new FakeReporter()
  metrics.started(next)
  next.count = 1
  t.equal((await scrape()).value('a_total'), 6)
  // While the others are asked.
  let answer = () => {}
  second.answers = new Promise(resolve => {
    answer = resolve
  })
  const scraping = scrape()
  await new Promise(resolve => setImmediate(resolve))
  metrics.ended(next)
  answer()
  t.equal((await scraping).value('a_total'), 6)
})

t.test('a worker that does not answer is waited for only a limited time', async t => {
  const { workers, scrape, late } = fleet()
  const [first, second] = workers
  first.count = 2
  second.count = 3
  await scrape()
  first.count = 4
  second.answers = new Promise(() => {})
  const scraping = scrape()
  await new Promise(resolve => setImmediate(resolve))
  late()
  t.equal((await scraping).value('a_total'), 7)
})

t.test('a worker that was never asked and has ended adds nothing', async t => {
  const { metrics, workers, scrape } = fleet()
  metrics.ended(workers[0])
  metrics.ended(workers[1])
  const scraped = await scrape()
  t.equal(scraped.value('a_total'), undefined)
  t.equal(scraped.value('sluice_tunnels_active'), 0, 'and what this program counts is there all the same')
})

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

t.test('counters add up by label and bucket, and gauges are dropped', async t => {
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
