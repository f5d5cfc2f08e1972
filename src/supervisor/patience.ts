/** How long another process is waited for. */
import type { Pause } from './pause.js'

/** Seconds in which a worker has to answer for whoever looks: far more than takes one that is of use. */
export const ANSWER_SECONDS = 2

/** One step of the wait. */
const STEP_MS = 1000

/**
 * Whether there is an answer, be it a failure, within so many seconds. They are waited for one by one: when this process
 * itself was stopped for a while, as the other one may have been, that was one second, and not the end of all patience.
 *
 * Never rejects.
 */
export async function isSettledWithin(
  asked: Promise<unknown>,
  seconds: number,
  pause: Pause,
): Promise<boolean> {
  let settled = false
  const settle = (): void => {
    settled = true
  }
  const over = new AbortController()
  const answered = asked.then(settle, settle)
  for (let waited = 0; waited < seconds && !settled; waited++) {
    await Promise.race([answered, pause(STEP_MS, over.signal)])
  }
  over.abort()
  return settled
}
