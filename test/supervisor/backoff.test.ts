import t from 'tap'
import { Backoff } from '../../src/supervisor/backoff.js'

t.test('the wait doubles from 100 ms to 5 s', async t => {
  const backoff = new Backoff()
  const delays = Array.from({ length: 8 }, () => backoff.delayMs(9999))
  t.same(delays, [100, 200, 400, 800, 1600, 3200, 5000, 5000])
})

t.test('a worker that lived for ten seconds begins anew', async t => {
  const backoff = new Backoff()
  backoff.delayMs(0)
  backoff.delayMs(0)
  t.equal(backoff.delayMs(10_000), 100)
  t.equal(backoff.delayMs(0), 200)
})
