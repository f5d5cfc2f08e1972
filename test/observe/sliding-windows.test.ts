import fc from 'fast-check'
import t from 'tap'
import {
  LATENCY_WINDOW_MS,
  LatencyWindow,
  quantile,
  type Totals,
  TRAFFIC_SECONDS,
  TrafficRing,
} from '../../src/observe/sliding-windows.js'

const countsOf = (values: readonly number[]) => {
  const window = new LatencyWindow()
  for (const value of values) window.add(value)
  return window.counts()
}

t.test('a quantile is right to a tenth between 0.05 ms and two minutes', async t => {
  const { failed, counterexample } = fc.check(
    fc.property(
      fc.array(fc.double({ min: 0.05, max: 120_000, noNaN: true }), { minLength: 1, maxLength: 60 }),
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
