import fc from 'fast-check'
import t from 'tap'
import { LATENCY_WINDOW_MS, LatencyWindow, quantile } from '../../src/observe/latency-window.js'

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
