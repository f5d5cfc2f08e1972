/** The only way in which tests wait: for a condition, with a deadline, and with an error that names the condition. */
import { performance } from 'node:perf_hooks'
// Not those of the global object, which a test may replace.
import { clearTimeout, setImmediate, setTimeout } from 'node:timers'
import { inspect } from 'node:util'

/** Longer than anything takes on a busy machine. */
export const DEADLINE_MS = 20_000

/** The polling interval for another process: polling in every turn would take processor time from it. */
export const OTHER_PROCESS_MS = 5

/** A deadline for fakes that run as long as the test. */
export const FOREVER = Number.POSITIVE_INFINITY

export interface Waiting {
  /** Milliseconds. */
  readonly deadlineMs?: number
  /** The state so far, for the error. */
  readonly seen?: () => unknown
  /** Notifies of changes that may affect the condition. */
  readonly changes?: Changes
  /**
   * The polling interval. Without it and without `changes` the condition is checked in every turn of the event loop.
   */
  readonly everyMs?: number
}

/** Notifications of a fake or a peer that something has happened. */
export class Changes {
  readonly #woken = new Set<() => void>()
  readonly #abandoned = new Set<() => void>()

  /** Makes all waiting calls check their condition. */
  notify(): void {
    const woken = [...this.#woken]
    this.#woken.clear()
    for (const wake of woken) wake()
  }

  /** Nothing happens any more: remaining waits never resolve. */
  end(): void {
    this.#woken.clear()
    for (const abandon of this.#abandoned) abandon()
    this.#abandoned.clear()
  }

  /** For `until`. @returns a function that removes the listener */
  attach(abandon: () => void): () => void {
    this.#abandoned.add(abandon)
    return () => this.#abandoned.delete(abandon)
  }

  /** For `until`: the next notification. */
  once(wake: () => void): void {
    this.#woken.add(wake)
  }
}

/**
 * Waits until `look` returns anything other than undefined or false, and returns that.
 *
 * @param what is waited for, as it reads after "waited for"
 * @throws Error with `what` and the state so far, when the deadline has passed; anything that `look` throws
 */
export async function until<T>(
  what: string,
  look: () => T | false | undefined | Promise<T | false | undefined>,
  { deadlineMs = DEADLINE_MS, seen, changes, everyMs }: Waiting = {},
): Promise<T> {
  const started = performance.now()
  // Only where nothing else is sure to wake it: a test that counts the event loop's timers must not find one of the
  // kit.
  let timer: NodeJS.Timeout | undefined
  let wake = (): void => {}
  const detach = changes?.attach(() => clearTimeout(timer))
  try {
    for (;;) {
      const looking = look()
      const found = looking instanceof Promise ? await Promise.race([looking, expiry()]) : looking
      if (found !== undefined && found !== false) return found
      const waitedMs = performance.now() - started
      if (waitedMs >= deadlineMs) throw new Error(late(what, waitedMs, seen))
      if (changes === undefined) {
        await new Promise<void>(resolve => {
          if (everyMs === undefined) setImmediate(resolve)
          else setTimeout(resolve, everyMs)
        })
      } else {
        const woken = expiry()
        changes.once(wake)
        await woken
      }
    }
  } finally {
    clearTimeout(timer)
    detach?.()
  }

  /** Resolves when `wake` is called, and at the deadline. */
  function expiry(): Promise<undefined> {
    if (timer === undefined && deadlineMs !== FOREVER) {
      // Rounded up, so that the deadline has passed by then.
      timer = setTimeout(() => wake(), deadlineMs + 1)
    }
    return new Promise(resolve => {
      wake = () => resolve(undefined)
    })
  }
}

/** Waits for a promise, as long as `until` does. */
export async function within<T>(what: string, promise: Promise<T>, waiting: Waiting = {}): Promise<T> {
  const settled = promise.then(value => ({ value }))
  return (await until(what, () => settled, waiting)).value
}

function late(what: string, ms: number, seen: (() => unknown) | undefined): string {
  const sofar = seen === undefined ? '' : `; so far: ${inspect(seen(), { depth: 4, maxStringLength: 2000 })}`
  return `waited ${Math.round(ms)} ms for ${what}${sofar}`
}
