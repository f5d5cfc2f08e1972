import { execFile } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { serializeMetrics } from '../../src/observe/exposition.js'
import {
  createProcessMetrics,
  EventLoopLag,
  Metrics,
  type MetricsOptions,
  reportUpstreams,
} from '../../src/observe/metrics.js'
import { metric } from '../../src/observe/series.js'
import type { UpstreamHealth } from '../../src/origin/create-origins.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { until } from '../kit/until.js'

function opened(t: Test, options: Partial<MetricsOptions> = {}) {
  const metrics = new Metrics({
    configHash: () => 'abc',
    tunnels: () => ({ size: 0, bytesUp: 0, bytesDown: 0 }),
    upstreams: () => [],
    cache: () => undefined,
    build: { version: '1.2.3', node: '20.0.0' },
    process: undefined,
    ...options,
  })
  t.teardown(() => metrics.close())
  const scrape = async () =>
    parseExposition((await serializeMetrics([await metrics.report()], 'text')).text, 'text')
  return { metrics, scrape }
}

t.test('tells the configuration in force and the versions that run', async t => {
  let hash = 'abc'
  const { scrape } = opened(t, { configHash: () => hash })
  const scraped = await scrape()
  t.same(scraped.counted('sluice_build_info'), { 'sluice_build_info{version="1.2.3",node="20.0.0"}': 1 })
  t.same(scraped.counted('sluice_config_info'), { 'sluice_config_info{hash="abc"}': 1 })
  hash = 'def'
  t.same((await scrape()).counted('sluice_config_info'), { 'sluice_config_info{hash="def"}': 1 })
  const unknown = await opened(t, { build: undefined }).scrape()
  t.notOk(unknown.families.has('sluice_build_info'), 'where they are not known they are not told')
})

t.test('counts reloads by their result, from 0', async t => {
  const { metrics, scrape } = opened(t)
  const samples = async () => [
    ...((await scrape()).families.get('sluice_config_reloads_total')?.samples ?? []),
  ]
  const series = (result: string) => `sluice_config_reloads_total{result="${result}"}`
  t.same(await samples(), [
    [series('applied'), 0],
    [series('rejected'), 0],
  ])
  metrics.configReloaded('applied')
  metrics.configReloaded('rejected')
  metrics.configReloaded('rejected')
  t.same(await samples(), [
    [series('applied'), 1],
    [series('rejected'), 2],
  ])
})

t.test('the report is plain JSON, and those of several workers merge', async t => {
  const failures = new Map([['dns_error', 1]])
  const workers = [true, false].map(up =>
    opened(t, {
      tunnels: () => ({ size: 2, bytesUp: 3, bytesDown: 4 }),
      upstreams: () => [{ route: '/', upstream: 'http://a.test:80', up, failures }],
    }),
  )
  const reports = await Promise.all(workers.map(({ metrics }) => metrics.report()))
  const sent = JSON.parse(JSON.stringify(reports)) as typeof reports
  const merged = parseExposition((await serializeMetrics(sent, 'openmetrics')).text, 'openmetrics')
  t.equal(merged.value('sluice_tunnels_active'), 4)
  t.equal(merged.value('sluice_bytes_total{direction="down"}'), 8)
  t.equal(merged.value('sluice_config_info{hash="abc"}'), 1)
  t.equal(merged.value('sluice_build_info{version="1.2.3",node="20.0.0"}'), 1)
  const upstream = 'route="/",upstream="http://a.test:80"'
  t.equal(merged.value(`sluice_upstream_up{${upstream}}`), 0, 'one of them can not reach it')
  t.equal(merged.value(`sluice_upstream_failures_total{${upstream},error="dns_error"}`), 2)
})

t.test('metrics of the process go out with the others', async t => {
  const process = async () => [metric('counter', 'process_a_total', 'A.', [[{}, 3]])]
  const { scrape } = opened(t, { process })
  const scraped = await scrape()
  t.equal(scraped.value('process_a_total'), 3)
  t.equal(scraped.value('sluice_tunnels_active'), 0)
})

t.test('two proxies in one process do not share a number', async t => {
  const [first, second] = [opened(t), opened(t)]
  first.metrics.configReloaded('applied')
  const series = 'sluice_config_reloads_total{result="applied"}'
  t.equal((await first.scrape()).value(series), 1)
  t.equal((await second.scrape()).value(series), 0)
})

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

t.test('a loop that stood still for a while was late by as much, once', async t => {
  const measured = new EventLoopLag()
  t.teardown(() => measured.close())
  const lag = () => measured.report().values[0]?.value ?? Number.NaN
  t.ok(lag() >= 0, 'before anything was looked at it is 0 or more')
  // The monitor's own timer has to have run before the loop is held up, and after: there is no event that says so.
  await delay(50)
  const end = performance.now() + 300
  while (performance.now() < end) {}
  await delay(50)
  const late = lag()
  t.ok(late >= 0.25 && late < 5, `${late}`)
  // The loop may have stood still by itself meanwhile, which is told then, once as well.
  const next = await until('it to be told no more', async () => {
    await delay(50)
    const told = lag()
    return told < late && told
  })
  t.ok(next < late, `it is told once, and then ${next}`)
})

t.test('processor time, memory and start of the process, and nothing whose names are not told', async t => {
  const { families } = parseExposition(
    (await serializeMetrics([await createProcessMetrics()()], 'text')).text,
    'text',
  )
  for (const name of [
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'process_start_time_seconds',
  ]) {
    t.ok(families.has(name), name)
  }
  const told = /^process_|^nodejs_heap_size_|^nodejs_external_memory_bytes$|^nodejs_gc_duration_seconds$/
  t.same(
    [...families.keys()].filter(name => !told.test(name)),
    [],
  )
})

t.test('keeps no process alive', async t => {
  const module = new URL('../../src/observe/metrics.js', import.meta.url)
  const script = `import { createProcessMetrics } from '${module}'; await createProcessMetrics()(); console.log('done')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: process.env['PATH'] },
    timeout: 30_000,
  })
  t.equal(stdout, 'done\n')
})
