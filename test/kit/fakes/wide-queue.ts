/** A queue in which everything runs at once, for tests of what comes before or after it. */
import { FairQueue } from '../../../src/limits/fair-queue.js'

const MANY = 1_000_000

export function wideQueue<Answer>(): FairQueue<Answer> {
  return new FairQueue({
    limits: { inAll: MANY, perClient: MANY },
    atOnce: MANY,
    refuse: limit => {
      throw new TypeError(`${limit} is not reached`)
    },
  })
}
