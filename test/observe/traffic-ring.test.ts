import t from 'tap'
import { TRAFFIC_SECONDS, type Totals, TrafficRing } from '../../src/observe/traffic-ring.js'

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
