import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { createProcessMetrics, Metrics, type MetricsOptions } from '../../src/observe/metrics.js'
import { metric } from '../../src/observe/series.js'
import { parseExposition } from '../kit/peers/exposition.js'

const NO_OUTAGE = { downSinceMs: undefined, lastTriedMs: undefined, error: undefined }

function opened(t: Test, options: Partial<MetricsOptions> = {}) {
  const metrics = new Metrics({
    configHash: () => 'abc',
    tunnels: () => ({ size: 0, bytesUp: 0, bytesDown: 0 }),
    upstreams: () => [],
    cache: () => undefined,
    certificates: () => [],
    lostLogLines: () => 0,
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
      upstreams: () => [{ route: '/', upstream: 'http://a.test:80', up, failures, ...NO_OUTAGE }],
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
  t.equal(merged.value(`sluice_upstream_up{${upstream}}`), 0, 'one of them cannot reach it')
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

t.test('worker processes that were replaced are counted, from 0, and log lines that were lost', async t => {
  let lost = 0
  const { metrics, scrape } = opened(t, { lostLogLines: () => lost })
  const read = async () => {
    const scraped = await scrape()
    return ['worker_restarts', 'log_lines_lost'].map(name => scraped.value(`sluice_${name}_total`))
  }
  t.same(await read(), [0, 0])
  metrics.workerRestarted()
  metrics.workerRestarted()
  lost = 7
  t.same(await read(), [2, 7])
})

t.test('certificates have the time at which they expire, by the key that names them', async t => {
  const certificates = () => [{ key: 'listen.tls.cert', expiresMs: 1_800_000_000_500 }]
  const scraped = await opened(t, { certificates }).scrape()
  t.equal(
    scraped.value('sluice_certificate_expiry_timestamp_seconds{key="listen.tls.cert"}'),
    1_800_000_000.5,
  )
  const none = await opened(t).scrape()
  t.equal(none.families.get('sluice_certificate_expiry_timestamp_seconds')?.samples.size, 0)
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
