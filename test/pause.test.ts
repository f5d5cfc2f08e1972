import t from 'tap'
import { pause } from '../src/pause.js'

const timers = (): number => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length

t.test('a pause ends after its time, and not before', async t => {
  const before = performance.now()
  await pause(30, new AbortController().signal)
  // A timer of Node may fire in the millisecond before.
  t.ok(performance.now() - before >= 29)
})

t.test('it ends at once when the signal aborts, also before it begins', async t => {
  const cut = new AbortController()
  const before = timers()
  const pausing = pause(600_000, cut.signal)
  t.equal(timers(), before + 1)
  cut.abort()
  await pausing
  t.equal(timers(), before, 'and its timer is gone')
  await pause(600_000, cut.signal)
  t.equal(timers(), before)
})
