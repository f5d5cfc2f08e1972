/** Timers of one duration that the test fires: whatever they limit may take as long as it needs. */
import type { Test } from 'tap'
import { Changes, until } from '../until.js'

export interface PausedTimers {
  /** How many were started so far. */
  readonly set: number
  /** How many of them are running. */
  readonly running: number
  /** Fires the first running timer, as soon as there is one. */
  fire(): Promise<void>
}

type Callback = (...args: unknown[]) => void

/** Longer than any test takes. */
const NEVER_MS = 2 ** 31 - 1

/** @param ms their duration: one that no other timer of the process has */
export function pauseTimers(t: Test, ms: number): PausedTimers {
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
