/**
 * Waits until nothing more happens, by turns of the event loop and not by a clock: everything in these tests runs in
 * one process over loopback, so a value that has not changed for many turns is waiting for something.
 */
import '../every-test.js'
import { setImmediate } from 'node:timers/promises'
import { until } from '../until.js'

/** Gives sockets of this process time to read what was written to them. */
export async function turns(count = 10): Promise<void> {
  for (let i = 0; i < count; i++) await setImmediate()
}

/** @returns the value once it has been the same for `count` turns */
export async function untilStable<T>(read: () => T, count = 200): Promise<T> {
  let last = read()
  let same = -1
  await until(
    `something to be the same for ${count} turns`,
    () => {
      const value = read()
      same = value === last ? same + 1 : 0
      last = value
      return same >= count
    },
    { seen: () => last },
  )
  return last
}
