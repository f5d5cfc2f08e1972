import t from 'tap'
import type { ProgramFacts } from '../../src/admin/describe-status.js'
import { describeStatus, withLastSeconds } from '../../src/admin/describe-status.js'
import { defaultConfig, parseConfig } from '../../src/index.js'
import { LatencyWindow } from '../../src/observe/status-recorder.js'
import type { WorkerStatus } from '../../src/observe/worker-status.js'

const FACTS: ProgramFacts = {
  build: { version: '1.2.3', node: '20.0.0' },
  startedMs: 1000,
  config: defaultConfig().config,
  configHash: 'abc',
  listeners: {
    proxy: [{ host: '::1', port: 3128 }],
    tls: undefined,
    admin: { host: '127.0.0.1', port: 9128 },
  },
  lastReload: undefined,
  needsRestart: [],
}

function worker(requests: number[]): WorkerStatus {
  const zeros = requests.map(() => 0)
  const dns = new LatencyWindow()
  for (let i = 0; i < 10; i++) dns.add(10)
  const none = new LatencyWindow().counts()
  return {
    worker: 3,
    pid: 700,
    startedMs: 1000,
    configHash: 'abc',
    busy: 0.123456,
    traffic: {
      endSecond: 60,
      requests,
      denied: zeros,
      wouldDeny: zeros,
      failed: zeros,
      opened: zeros,
      bytesUp: zeros,
      bytesDown: zeros,
      tunnels: zeros,
    },
    latencies: { dns: dns.counts(), dial: none, firstByte: none },
    tunnels: { open: 2, listed: [] },
    shares: [],
    denials: { dropped: 0, listed: [] },
    failures: { dropped: 0, listed: [] },
    upstreams: [],
    cache: undefined,
  }
}

t.test('is plain JSON, with rates of the last five seconds and null for what is not there', async t => {
  const document = describeStatus([worker([9, 0, 0, 0, 0, 10]), worker([1])], FACTS, true, 61_500)
  t.same(JSON.parse(JSON.stringify(document)), document)
  t.equal(document.schema, 1)
  t.equal(document.time, '1970-01-01T00:01:01.500Z')
  t.equal(document.uptime_seconds, 60)
  t.same(document.listen, {
    proxy: ['[::1]:3128'],
    tls: null,
    admin: '127.0.0.1:9128',
    read_only: false,
  })
  t.equal(document.config.last_reload, null)
  t.equal(document.rates.requests_per_second, 2.2)
  t.equal(document.tunnels.open, 4)
  t.same(document.workers[0], {
    worker: 3,
    pid: 700,
    started: '1970-01-01T00:00:01.000Z',
    config_hash: 'abc',
    busy: 0.123,
    requests_per_second: 2,
    tunnels: 2,
  })
  const unknown = { ...worker([]), pid: undefined }
  t.equal(describeStatus([unknown], FACTS, true, 0).workers[0]?.pid, null)
  t.equal(document.latency.dns.count, 20)
  t.ok(Math.abs((document.latency.dns.p50 ?? 0) - 10) < 2)
  t.same(document.latency.dial, { count: 0, p50: null, p95: null, p99: null })
  t.equal(document.traffic.end, '1970-01-01T00:01:00.000Z')
})

t.test('failures are compared with the requests of the last minute, tunnels among them', async t => {
  const quiet = new Array<number>(61).fill(1)
  const { traffic } = worker(quiet)
  const failure = {
    kind: 'forward',
    host: 'a.test',
    port: 80,
    rule: undefined,
    reason: 'dns_error',
    parent: undefined,
    client: undefined,
    user: undefined,
    clientAddress: '::1',
    detail: 'No address.',
    count: 3,
    firstMs: 1000,
    lastMs: 2000,
  } as const
  const status = {
    ...worker(quiet),
    traffic: { ...traffic, failed: quiet.map((_, i) => (i < 31 ? 1 : 0)), opened: quiet.map(() => 0.5) },
    failures: { dropped: 2, listed: [failure] },
  }
  const { failures, rates, traffic: series } = describeStatus([status], FACTS, true, 61_500)
  t.match(failures, { window_seconds: 60, failed: 30, requests: 90, dropped: 2 })
  t.same(failures.listed, [
    {
      kind: 'forward',
      host: 'a.test',
      port: 80,
      rule: null,
      reason: 'dns_error',
      parent: null,
      client: null,
      user: null,
      client_address: '::1',
      detail: 'No address.',
      count: 3,
      first: '1970-01-01T00:00:01.000Z',
      last: '1970-01-01T00:00:02.000Z',
    },
  ])
  t.equal(rates.failed_per_second, 0)
  t.equal(series.failed.length, 61)
})

t.test('an upstream that is down says since when and why', async t => {
  const up = {
    route: '/',
    upstream: 'http://a:1',
    up: true,
    downSinceMs: undefined,
    lastTriedMs: undefined,
    error: undefined,
    failures: 0,
  }
  const down = {
    ...up,
    route: 'parent',
    up: false,
    downSinceMs: 3000,
    lastTriedMs: 4000,
    error: 'refused',
    failures: 2,
  }
  const { upstreams } = describeStatus([{ ...worker([]), upstreams: [down, up] }], FACTS, true, 61_500)
  t.same(upstreams, [
    {
      route: 'parent',
      upstream: 'http://a:1',
      up: false,
      down_since: '1970-01-01T00:00:03.000Z',
      last_tried: '1970-01-01T00:00:04.000Z',
      error: 'refused',
      failures: 2,
    },
    {
      route: '/',
      upstream: 'http://a:1',
      up: true,
      down_since: null,
      last_tried: null,
      error: null,
      failures: 0,
    },
  ])
})

t.test('limits have the names and the units of the file; one that does not hold is left out', async t => {
  const { config } = FACTS
  const limitsOf = (limits: ProgramFacts['config']['limits']): Map<string, string> => {
    const found = describeStatus([], { ...FACTS, config: { ...config, limits } }, true, 0).limits
    return new Map(found.map(({ key, value, unit }) => [key, `${value} ${unit}`]))
  }
  const byDefault = limitsOf(config.limits)
  t.equal(byDefault.get('tunnel_idle'), '600000 ms')
  t.equal(byDefault.get('header_fields'), '100 count')
  t.equal(byDefault.size, Object.keys(config.limits).length)
  t.notOk(byDefault.has('bytes_per_hour'))
  const all = limitsOf({ ...config.limits, requestsPerSecond: 5, bytesPerHour: 2048 })
  t.equal(all.get('requests_per_second'), '5 count')
  const sizes = ['header_bytes 16384', 'target_bytes 8192', 'bytes_per_hour 2048', 'body_min_rate 1024']
  for (const size of sizes) {
    const [key = '', value] = size.split(' ')
    t.equal(all.get(key), `${value} bytes`, key)
  }
  t.equal([...all.values()].filter(value => value.endsWith('bytes')).length, sizes.length)
})

t.test('a rejected reload is told with its problems', async t => {
  const lastReload = {
    result: 'rejected',
    timeMs: 5000,
    hash: 'abc',
    problems: ['a.yaml:1:2: x: bad'],
  } as const
  const { config } = describeStatus([], { ...FACTS, lastReload, needsRestart: ['listen.proxy'] }, false, 0)
  t.same(config.last_reload, {
    result: 'rejected',
    time: '1970-01-01T00:00:05.000Z',
    hash: 'abc',
    problems: ['a.yaml:1:2: x: bad'],
  })
  t.same(config.needs_restart, ['listen.proxy'])
})

t.test('the last seconds alone are cut from every series, and nothing else is changed', async t => {
  const document = describeStatus([worker([1, 2, 3])], FACTS, true, 61_500)
  const { traffic, ...rest } = withLastSeconds(document, 2)
  t.same(traffic.requests, [2, 3])
  t.same(traffic.bytes_up, [0, 0])
  t.equal(traffic.end, document.traffic.end)
  const { traffic: _whole, ...all } = document
  t.same(rest, all)
})

t.test('says who is observed, and the limits that entries of clients set themselves', async t => {
  const { config } = parseConfig(`version: 1
clients:
  - { name: team-a, cidr: ["10.1.0.0/16"], mode: observe }
  - { name: team-b, cidr: ["10.2.0.0/16"], limits: { tunnels_per_client: 2, tunnel_idle: 5s, bytes_per_hour: 1KiB } }
`)
  const share = (client: string, clientAddress: string, tunnels: number) => ({
    client,
    user: undefined,
    clientAddress,
    tunnels,
  })
  const many = Array.from({ length: 12 }, (_, i) => share('team-a', `10.1.0.${i}`, 5))
  const busy = { ...worker([]), shares: [...many, share('team-b', '10.2.0.1', 2)] }
  const document = describeStatus([busy], { ...FACTS, config }, true, 0)
  t.match(document.config, {
    mode: 'enforce',
    observed: ['team-a'],
    modes: 'observe for team-a; enforce for the others',
  })
  const most = [{ client: 'team-b', user: null, client_address: '10.2.0.1', count: 2 }]
  t.same(document.client_limits, [
    { client: 'team-b', key: 'tunnels_per_client', value: 2, unit: 'count', most },
    { client: 'team-b', key: 'bytes_per_hour', value: 1024, unit: 'bytes', most: null },
    { client: 'team-b', key: 'tunnel_idle', value: 5000, unit: 'ms', most: null },
  ])
  t.equal(document.limits.find(({ key }) => key === 'tunnels_per_client')?.most?.length, 10)
  t.same(describeStatus([], FACTS, true, 0).client_limits, [])
})
