import t from 'tap'
import { isSettledWithin } from '../../src/supervisor/patience.js'
import type { Pause } from '../../src/supervisor/pause.js'

/** Pauses that are over at once, or never, and how many there were. */
function pauses(ends: boolean) {
  const signals: AbortSignal[] = []
  const pause: Pause = async (ms, signal) => {
    t.equal(ms, 1000)
    signals.push(signal)
    if (!ends) await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
  }
  return { signals, pause }
}

t.test(
  'an answer within the time is one, and so is a failure; nothing is waited for any more then',
  async t => {
    for (const asked of [Promise.resolve(1), Promise.reject(new Error('gone'))]) {
      const { signals, pause } = pauses(false)
      t.equal(await isSettledWithin(asked, 2, pause), true)
      t.same(
        signals.map(({ aborted }) => aborted),
        [true],
      )
    }
  },
)

t.test('so many seconds are waited for, one by one', async t => {
  const { signals, pause } = pauses(true)
  t.equal(await isSettledWithin(new Promise(() => {}), 3, pause), false)
  t.equal(signals.length, 3)
})
