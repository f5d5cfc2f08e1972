/**
 * Waiting for nothing to happen, by turns of the event loop and not by a clock: everything in these tests runs in one
 * process over loopback, so what has not moved in many turns is waiting for somebody.
 */
import { setImmediate } from 'node:timers/promises'

/** Gives sockets of this process time to read what was written to them. */
export async function turns(count = 10): Promise<void> {
  for (let i = 0; i < count; i++) await setImmediate()
}

/** @returns the value once it has been the same for `count` turns */
export async function settled<T>(read: () => T, count = 200): Promise<T> {
  let last = read()
  for (let same = 0; same < count; same++) {
    await setImmediate()
    const value = read()
    if (value !== last) same = 0
    last = value
  }
  return last
}
