import fc from 'fast-check'
import t from 'tap'
import { defaultConfig } from '../../src/index.js'
import {
  LATENCY_WINDOW_MS,
  LatencyWindow,
  quantile,
  StatusRecorder,
  type Totals,
  TRAFFIC_SECONDS,
  TrafficRing,
} from '../../src/observe/status-recorder.js'

t.test('keeps what both events of an exchange say, and samples once a second', async t => {
  const clock = { ms: 5000 }
  const totals = {
    requests: 0,
    denied: 0,
    wouldDeny: 0,
    failed: 0,
    opened: 0,
    bytesUp: 0,
    bytesDown: 0,
    tunnels: 0,
  }
  const recorder = new StatusRecorder({
    now: () => clock.ms,
    wallClock: () => clock.ms,
    totals: () => ({ ...totals }),
  })
  const subject = {
    id: 'x-1',
    client: 'ci',
    clientAddress: '10.0.0.1',
    kind: 'forward',
    method: 'GET',
    host: 'a.test',
    port: 80,
  } as const
  const outcome = {
    handler: 'forward',
    status: 200,
    closeReason: 'complete',
    bytesUp: 0,
    bytesDown: 0,
    connectMs: 20,
    firstByteMs: 300,
  } as const
  recorder.close(subject, outcome, 400, { decision: 'allow', dnsMs: 4 })
  recorder.decision(subject, { decision: 'deny', reason: 'no_rule' }, 'h')
  totals.requests = 3
  clock.ms = 6000
  recorder.sample()
  const tunnels = { open: 0, listed: [] }
  const report = recorder.report({
    worker: 2,
    pid: 7,
    config: defaultConfig().config,
    configHash: 'h',
    tunnels,
    shares: [],
    upstreams: [],
    cache: undefined,
  })
  t.same([report.worker, report.pid], [2, 7])
  t.equal(report.startedMs, 5000)
  t.equal(report.configHash, 'h')
  t.same(report.traffic.requests, [3])
  t.equal(report.denials.listed.length, 1)
  t.ok(report.busy >= 0 && report.busy <= 1)
  for (const [name, ms] of [
    ['dns', 4],
    ['dial', 20],
    ['firstByte', 300],
  ] as const) {
    const found = quantile(report.latencies[name], 1) ?? 0
    t.ok(found > ms / 1.21 && found < ms * 1.21, `${name} ${found}`)
  }
  t.same(JSON.parse(JSON.stringify(report)).traffic, report.traffic, 'plain values')
})

t.test('samples by itself between start and stop', async t => {
  let asked = 0
  const none = {
    requests: 0,
    denied: 0,
    wouldDeny: 0,
    failed: 0,
    opened: 0,
    bytesUp: 0,
    bytesDown: 0,
    tunnels: 0,
  }
  let sampled = () => {}
  const second = new Promise<void>(resolve => {
    sampled = resolve
  })
  const recorder = new StatusRecorder({
    now: () => 0,
    wallClock: () => 0,
    totals: () => {
      asked += 1
      if (asked === 2) sampled()
      return none
    },
  })
  t.equal(asked, 1)
  recorder.start()
  recorder.start()
  // The timer alone does not keep the process alive.
  const alive = setInterval(() => {}, 1000)
  await second
  clearInterval(alive)
  recorder.stop()
  t.equal(asked, 2)
})

t.test('what a tunnel took is kept when it is established, and not again when it is over', t => {
  const recorder = new StatusRecorder({
    now: () => 0,
    wallClock: () => 0,
    totals: () => ({
      requests: 0,
      denied: 0,
      wouldDeny: 0,
      failed: 0,
      opened: 0,
      bytesUp: 0,
      bytesDown: 0,
      tunnels: 0,
    }),
  })
  const { config } = defaultConfig()
  const report = () =>
    recorder.report({
      worker: 1,
      pid: 1,
      config,
      configHash: '',
      tunnels: { open: 0, listed: [] },
      shares: [],
      upstreams: [],
      cache: undefined,
    })
  const counts = () => {
    const { dial, dns } = report().latencies
    return [dial, dns].map(list => list.reduce((sum, count) => sum + count, 0))
  }
  recorder.tunnelOpened(undefined, undefined)
  t.same(counts(), [0, 0])
  recorder.tunnelOpened(20, undefined)
  t.same(counts(), [1, 0])
  recorder.tunnelOpened(20, 4)
  t.same(counts(), [2, 1])
  const subject = {
    id: 'x',
    client: undefined,
    clientAddress: '::1',
    kind: 'connect',
    method: 'CONNECT',
  } as const
  const over = { closeReason: 'complete', bytesUp: 0, bytesDown: 0, connectMs: 20 } as const
  const decided = { decision: 'allow', dnsMs: 4 } as const
  const tunnel = { ...over, handler: 'tunnel', status: 200 } as const
  recorder.close(subject, tunnel, 1, decided)
  recorder.close(subject, { ...over, handler: 'forward', status: 101 }, 1, decided)
  t.same(counts(), [2, 1])
  recorder.close(subject, { ...tunnel, status: 502 }, 1, decided)
  t.same(counts(), [3, 2])
  t.same(report().denials.listed, [])
  recorder.close(subject, { ...tunnel, serverName: { fault: 'sni_missing' } }, 1, decided)
  t.match(report().denials.listed, [{ reason: 'sni_missing', decision: 'deny' }])
  t.end()
})

const countsOf = (values: readonly number[]) => {
  const window = new LatencyWindow()
  for (const value of values) window.add(value)
  return window.counts()
}

t.test('a quantile is right to a tenth between 0.05 ms and two minutes', async t => {
  const { failed, counterexample } = fc.check(
    fc.property(
      fc.array(fc.double({ min: 0.05, minExcluded: true, max: 120_000, noNaN: true }), {
        minLength: 1,
        maxLength: 60,
      }),
      fc.constantFrom(0.5, 0.95, 0.99, 1),
      (values, q) => {
        const sorted = [...values].sort((a, b) => a - b)
        const exact = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0
        const found = quantile(countsOf(values), q) ?? Number.NaN
        return found > exact / 1.21 && found < exact * 1.21
      },
    ),
  )
  t.notOk(failed, `${counterexample}`)
})

t.test('nothing counted has no quantile; what is out of range goes to the ends', async t => {
  t.equal(quantile(countsOf([]), 0.5), undefined)
  t.equal(quantile([], 0.5), undefined)
  t.ok((quantile(countsOf([0, -1, Number.NaN]), 1) ?? 1) <= 0.05)
  const far = quantile(countsOf([1e9]), 1) ?? 0
  t.ok(far > 120_000 && far < 150_000, String(far))
})

t.test('what is older than the window is forgotten, a slot at a time', async t => {
  const window = new LatencyWindow()
  const total = () => window.counts().reduce((sum, count) => sum + count, 0)
  window.advance(0)
  window.add(1)
  window.advance(29_999)
  window.add(1)
  window.advance(30_000)
  window.add(1)
  t.equal(total(), 3)
  window.advance(LATENCY_WINDOW_MS - 1)
  t.equal(total(), 3)
  window.advance(LATENCY_WINDOW_MS)
  t.equal(total(), 1, 'the first thirty seconds are over')
  window.advance(LATENCY_WINDOW_MS - 1)
  t.equal(total(), 1, 'time does not go back')
  window.advance(100 * LATENCY_WINDOW_MS)
  t.equal(total(), 0)
})

const totals = (requests: number, tunnels = 0): Totals => ({
  requests,
  denied: 0,
  wouldDeny: 0,
  failed: 0,
  opened: 0,
  bytesUp: 2 * requests,
  bytesDown: 0,
  tunnels,
})

t.test('each second has what passed in it, and how many tunnels there were at its end', async t => {
  const ring = new TrafficRing(10_000, totals(5))
  t.same(ring.traffic.requests, [])
  ring.sample(11_000, totals(8, 2))
  ring.sample(12_000, totals(8, 1))
  const { endSecond, requests, bytesUp, tunnels } = ring.traffic
  t.same(
    { endSecond, requests, bytesUp, tunnels },
    { endSecond: 11, requests: [3, 0], bytesUp: [6, 0], tunnels: [2, 1] },
  )
})

t.test('a sample within the same second waits, a late one stands for all seconds since', async t => {
  const ring = new TrafficRing(10_000, totals(0))
  ring.sample(10_999, totals(9))
  t.same(ring.traffic.requests, [])
  ring.sample(14_000, totals(20))
  t.same(ring.traffic.requests, [5, 5, 5, 5])
  t.equal(ring.traffic.endSecond, 13)
})

t.test('late samples lose and invent nothing: the numbers are whole, and add up to the totals', t => {
  const { failed, counterexample } = fc.check(
    fc.property(
      fc.integer({ min: 0, max: 999 }),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 9000 }), fc.nat(1000)), { minLength: 1, maxLength: 40 }),
      (start, steps) => {
        let now = 10_000 + start
        let sum = 0
        const ring = new TrafficRing(now, totals(0))
        for (const [late, more] of [...steps, [1000, 0] as const]) {
          now += late
          sum += more
          ring.sample(now, totals(sum))
        }
        const { requests, bytesUp, endSecond } = ring.traffic
        const added = (list: readonly number[]) => list.reduce((all, value) => all + value, 0)
        return (
          [...requests, ...bytesUp].every(value => Number.isInteger(value) && value >= 0) &&
          added(requests) === sum &&
          added(bytesUp) === 2 * sum &&
          endSecond === Math.floor(now / 1000) - 1
        )
      },
    ),
  )
  t.notOk(failed, `${counterexample}`)
  const first = new TrafficRing(10_100, totals(0))
  first.sample(11_190, totals(21))
  t.same(first.traffic.requests, [21], 'a timer that is a little late')
  first.sample(14_000, totals(31))
  t.same(first.traffic.requests, [21, 3, 3, 4], 'the remainder is spread, too')
  t.end()
})

t.test('a quarter of an hour is kept, however long nothing was sampled', async t => {
  const ring = new TrafficRing(0, totals(0))
  ring.sample(1000, totals(7))
  for (let second = 2; second <= TRAFFIC_SECONDS; second++) ring.sample(second * 1000, totals(7))
  t.equal(ring.traffic.requests.length, TRAFFIC_SECONDS)
  t.equal(ring.traffic.requests[0], 7)
  ring.sample((TRAFFIC_SECONDS + 1) * 1000, totals(7))
  t.equal(ring.traffic.requests.length, TRAFFIC_SECONDS)
  t.equal(ring.traffic.requests[0], 0)
  ring.sample(1e9, totals(7))
  t.equal(ring.traffic.requests.length, TRAFFIC_SECONDS)
  t.equal(ring.traffic.endSecond, 999_999)
})

t.test('a clock that is set back does no harm', async t => {
  const ring = new TrafficRing(100_000, totals(0))
  ring.sample(101_000, totals(1))
  ring.sample(50_000, totals(2))
  ring.sample(51_000, totals(3))
  t.ok(ring.traffic.requests.every(value => value >= 0 && Number.isFinite(value)))
  t.equal(ring.traffic.endSecond, 50)
})
