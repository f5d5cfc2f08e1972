import t from 'tap'
import { pause } from '../../src/supervisor/pause.js'

t.test('is over after its time, or at once when it is cut short', async t => {
  const never = new AbortController()
  await pause(1, never.signal)
  const cut = new AbortController()
  const pausing = pause(600_000, cut.signal)
  cut.abort()
  await pausing
  await pause(600_000, cut.signal)
  t.pass('neither has waited ten minutes')
})
