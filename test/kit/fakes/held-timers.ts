/** Timers of one length that go off when the test says so: what they bound may take as long as it likes. */
import type { Test } from 'tap'
import { Changes, until } from '../until.js'

export interface HeldTimers {
  /** How many were set so far. */
  readonly set: number
  /** How many of them run now. */
  readonly running: number
  /** Lets the first of those that run go off, as soon as one does. */
  fire(): Promise<void>
}

type Callback = (...args: unknown[]) => void

/** Longer than any test takes. */
const NEVER_MS = 2 ** 31 - 1

/** @param ms how long they are: a time that nothing else of the process takes */
export function holdTimers(t: Test, ms: number): HeldTimers {
  const { setTimeout, clearTimeout } = globalThis
  const running = new Map<NodeJS.Timeout, () => void>()
  let set = 0
  const changes = new Changes()
  const hold = (callback: Callback, delay?: number, ...args: unknown[]): NodeJS.Timeout => {
    if (delay !== ms) return setTimeout(callback, delay, ...args)
    const timer = setTimeout(() => {}, NEVER_MS)
    running.set(timer, () => callback(...args))
    set += 1
    changes.notify()
    return timer
  }
  const release = (timer: NodeJS.Timeout): void => {
    running.delete(timer)
    clearTimeout(timer)
  }
  Object.assign(globalThis, { setTimeout: hold, clearTimeout: release })
  t.teardown(() => {
    Object.assign(globalThis, { setTimeout, clearTimeout })
    for (const timer of running.keys()) clearTimeout(timer)
  })
  return {
    get set() {
      return set
    },
    get running() {
      return running.size
    },
    fire: async () => {
      const [timer, callback] = await until(`a timer of ${ms} ms to be set`, () => [...running][0], {
        changes,
      })
      release(timer)
      callback()
    },
  }
}
