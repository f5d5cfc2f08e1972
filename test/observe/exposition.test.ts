import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { type MetricsReport, serializeMetrics } from '../../src/observe/exposition.js'
import { parseExposition } from '../kit/peers/exposition.js'

/** What one worker says, as it comes out at the other end of a pipe. */
async function report(count: number): Promise<MetricsReport> {
  const registers = [new Registry()]
  new Counter({ name: 'a_total', help: 'A.', labelNames: ['b'], registers }).inc({ b: 'x"\\\n' }, count)
  new Gauge({ name: 'most', help: 'Most.', registers, aggregator: 'max' }).set(count)
  new Gauge({ name: 'info', help: 'I.', labelNames: ['v'], registers, aggregator: 'first' }).set(
    { v: '1' },
    1,
  )
  new Gauge({
    name: 'process_start_time_seconds',
    help: 'Start.',
    registers,
    aggregator: 'omit',
  }).set(1000 + count)
  const times = new Histogram({ name: 'c_seconds', help: 'C.', buckets: [0.1, 1], registers })
  for (let i = 0; i < count; i++) times.observe(i)
  return JSON.parse(JSON.stringify(await registers[0]?.getMetricsAsJSON())) as MetricsReport
}

t.test('one report is told as it is, in either format', async t => {
  for (const [format, type] of [
    ['text', 'text/plain; version=0.0.4; charset=utf-8'],
    ['openmetrics', 'application/openmetrics-text; version=1.0.0; charset=utf-8'],
  ] as const) {
    const { contentType, text } = await serializeMetrics([await report(2)], format)
    t.equal(contentType, type)
    const read = parseExposition(text, format)
    t.same(
      [...read.families].map(([name, { type, help }]) => [name, type, help]),
      [
        [format === 'text' ? 'a_total' : 'a', 'counter', 'A.'],
        ['most', 'gauge', 'Most.'],
        ['info', 'gauge', 'I.'],
        ['process_start_time_seconds', 'gauge', 'Start.'],
        ['c_seconds', 'histogram', 'C.'],
      ],
    )
    t.equal(read.value('a_total{b="x\\"\\\\\\n"}'), 2)
    t.equal(read.value('process_start_time_seconds'), 1002)
    t.equal(read.value('c_seconds_bucket{le="0.1"}'), 1)
    t.equal(read.value('c_seconds_bucket{le="1"}'), 2)
    t.equal(read.value('c_seconds_sum'), 1)
  }
})

t.test('several reports are merged: counters and histograms added, the rest as each says', async t => {
  for (const format of ['text', 'openmetrics'] as const) {
    const { text } = await serializeMetrics([await report(2), await report(3)], format)
    const read = parseExposition(text, format)
    t.equal(read.value('a_total{b="x\\"\\\\\\n"}'), 5)
    t.equal(read.value('most'), 3)
    t.equal(read.value('info{v="1"}'), 1)
    t.equal(read.value('process_start_time_seconds'), 1002)
    t.equal(read.value('c_seconds_bucket{le="0.1"}'), 2)
    t.equal(read.value('c_seconds_bucket{le="1"}'), 4)
    t.equal(read.value('c_seconds_bucket{le="+Inf"}'), 5)
    t.equal(read.value('c_seconds_count'), 5)
    t.equal(read.value('c_seconds_sum'), 4)
  }
})

t.test('reports stay as they are, so that one can be told in both formats', async t => {
  const reports = [await report(1)]
  const before = JSON.stringify(reports)
  const first = await serializeMetrics(reports, 'text')
  await serializeMetrics(reports, 'openmetrics')
  t.equal(JSON.stringify(reports), before)
  t.same(await serializeMetrics(reports, 'text'), first)
})

t.test('the reader of these tests takes nothing that is malformed', async t => {
  const head = '# HELP a_total A.\n# TYPE a_total counter\n'
  const times = '# HELP h H.\n# TYPE h histogram\n'
  t.equal(parseExposition(`${head}a_total{b="c",d="\\""} 1\n`, 'text').value('a_total{b="c",d="\\""}'), 1)
  t.equal(parseExposition('# HELP a A.\n# TYPE a counter\na_total 1\n# EOF\n', 'openmetrics').sum('a'), 1)
  for (const text of [
    `${head}a_total 1`,
    `${head}a_total 1\na_total 1\n`,
    `${head}${head}`,
    `${head}# TYPE a_total counter\n`,
    `${head}a_total -1\n`,
    `${head}a_total NaN\n`,
    `${head}a_total\n`,
    `${head}a_total{} 1\n`,
    `${head}a_total{b="c",} 1\n`,
    `${head}a_total{b="c"x="d"} 1\n`,
    `${head}a_total{b="c",b="d"} 1\n`,
    `${head}a_total{b=c} 1\n`,
    `${head}a_total{b="""} 1\n`,
    `${head}b_total 1\n`,
    'a_total 1\n',
    '# HELP a A.\n# TYPE a counter\na 1\n',
    '# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n',
    '# HELP a_total A.\na_total 1\n',
    '# HELP a A.\n# TYPE a thing\n',
    `${times}h_bucket{le="1"} 2\nh_bucket{le="2"} 1\nh_bucket{le="+Inf"} 2\nh_sum 1\nh_count 2\n`,
    `${times}h_bucket{le="2"} 1\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 2\nh_sum 1\nh_count 2\n`,
    `${times}h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`,
    `${times}h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`,
    `${times}h_bucket{le="+Inf"} 1\nh_count 1\n`,
  ]) {
    t.throws(() => parseExposition(text, 'text'), Error, text)
  }
  for (const text of [
    `${head}a_total 1\n# EOF\n`,
    '# HELP a A.\n# TYPE a counter\na_total 1\n',
    '# HELP a A.\n# TYPE a counter\na 1\n# EOF\n',
    '# HELP a A.\n# TYPE a counter\n\na_total 1\n# EOF\n',
    '# EOF\n# EOF\n',
  ]) {
    t.throws(() => parseExposition(text, 'openmetrics'), Error, text)
  }
})
