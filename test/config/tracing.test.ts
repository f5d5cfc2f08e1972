import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { parseCollectorUrl } from '../../src/config/tracing.js'
import { problemsOf } from './problems-of.js'

const tracing = (yaml: string) => parseConfig(`version: 1\ntracing: { ${yaml} }\n`).config.tracing

t.test('says where spans go, and how many', async t => {
  t.equal(parseConfig('version: 1').config.tracing, undefined)
  t.match(tracing('otlp: "HTTPS://Collector.Example/v1/traces"'), {
    otlp: {
      scheme: 'https',
      authority: { host: { name: 'collector.example' }, port: 443 },
      text: 'HTTPS://Collector.Example/v1/traces',
    },
    sample: 1,
  })
  t.match(tracing('otlp: "http://[::1]:4318/v1/traces", sample: 0.1'), {
    otlp: { scheme: 'http', authority: { host: { kind: 'ipv6', name: '::1' }, port: 4318 } },
    sample: 0.1,
  })
  t.equal(tracing('otlp: "http://c:1/x", sample: 0')?.sample, 0)
})

t.test('a URL is that of the endpoint itself, with its path and nothing else', async t => {
  t.equal(parseCollectorUrl('http://c.test/v1/traces').authority.port, 80)
  for (const [url, clause] of [
    ['', 'does not begin with'],
    ['c.test:4318/v1/traces', 'does not begin with'],
    ['grpc://c.test:4317/', 'does not begin with'],
    ['http://c.test:4318', 'without a path'],
    ['http://c.test:4318/', 'without a path'],
    ['http://c.test:4318/v1/traces?key=1', 'with a query'],
    ['http://c.test:4318/v1/traces#x', 'with a query'],
    ['http://c.test:4318/v1 traces', 'with a query'],
    ['http://key@c.test:4318/v1/traces', ', '],
    ['http:///v1/traces', ', '],
    ['http://c.test:0/v1/traces', ', '],
  ] as const) {
    t.throws(() => parseCollectorUrl(url), { name: 'RangeError', message: clause }, url)
  }
})

t.test('what is wrong is told with its key', async t => {
  const problems = (yaml: string) => problemsOf(`version: 1\ntracing: { ${yaml} }\n`)
  const url = 'otlp: "http://c.test:4318/v1/traces"'
  t.match(problems('sample: 1'), [/tracing\.otlp: .*expected a URL/])
  t.match(problems(`${url}, sample: 1.1`), [/tracing\.sample: expected a number from 0 to 1/])
  t.match(problems(`${url}, sample: -0.1`), [/tracing\.sample: expected a number from 0 to 1/])
  t.match(problems(`${url}, sample: "10%"`), [/tracing\.sample: expected a number from 0 to 1/])
  t.match(problems(`${url}, headers: x`), [/unknown key .*headers_file/])
})

t.test('no message shows the password of a URL', async t => {
  for (const url of ['http://me:hunter2@c.test/v1', 'grpc://me:hunter2@c.test/']) {
    t.throws(() => parseCollectorUrl(url), { message: /found "\w+:\/\/\.\.\.@c\.test/ }, url)
    t.throws(() => parseCollectorUrl(url), { message: /^(?!.*hunter2)/s }, url)
  }
})
