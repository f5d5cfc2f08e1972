/** The one way in which tests wait: for a condition, with a bound, and with an error that says what was waited for. */
import { performance } from 'node:perf_hooks'
// Not those of the global object, which a test may hold.
import { clearTimeout, setImmediate, setTimeout } from 'node:timers'
import { inspect } from 'node:util'

/** Longer than anything takes on a machine that has much else to do, and shorter than anybody likes to wait. */
export const DEADLINE_MS = 20_000

/** How often another process is looked at: what polls it in every turn takes from it the processor that it waits for. */
export const OTHER_PROCESS_MS = 5

/** As a deadline, of fakes that serve as long as the test likes. */
export const FOREVER = Number.POSITIVE_INFINITY

export interface Waiting {
  /** Milliseconds. */
  readonly deadlineMs?: number
  /** What there is so far, for the error. */
  readonly seen?: () => unknown
  /** Notifies of whatever may have changed the condition. */
  readonly changes?: Changes
  /** The pause between two looks. Without it and without `changes` there is a look in every turn of the event loop. */
  readonly everyMs?: number
}

/** What a fake or a peer notifies when something has happened to it. */
export class Changes {
  readonly #woken = new Set<() => void>()
  readonly #abandoned = new Set<() => void>()

  /** Has all who wait look again. */
  notify(): void {
    const woken = [...this.#woken]
    this.#woken.clear()
    for (const wake of woken) wake()
  }

  /** Nothing happens any more: whoever waits does so for ever, as nobody is interested any longer. */
  end(): void {
    this.#woken.clear()
    for (const abandon of this.#abandoned) abandon()
    this.#abandoned.clear()
  }

  /** Of `until`. @returns what takes it back */
  attach(abandon: () => void): () => void {
    this.#abandoned.add(abandon)
    return () => this.#abandoned.delete(abandon)
  }

  /** Of `until`: the next notification. */
  once(wake: () => void): void {
    this.#woken.add(wake)
  }
}

/**
 * Waits until `look` gives anything but undefined or false, and gives that.
 *
 * @param what is waited for, as it reads behind "waited for"
 * @throws Error with `what` and what was seen so far, once the deadline is over; whatever `look` throws
 */
export async function until<T>(
  what: string,
  look: () => T | false | undefined | Promise<T | false | undefined>,
  { deadlineMs = DEADLINE_MS, seen, changes, everyMs }: Waiting = {},
): Promise<T> {
  const started = performance.now()
  // Only where nothing else is sure to wake this: what a test counts of the event loop is not to hold a timer of ours.
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

  /** Resolves when `wake` is called, at the latest when the deadline is over. */
  function expiry(): Promise<undefined> {
    if (timer === undefined && deadlineMs !== FOREVER) {
      // Rounded up, so that it is over by then.
      timer = setTimeout(() => wake(), deadlineMs + 1)
    }
    return new Promise(resolve => {
      wake = () => resolve(undefined)
    })
  }
}

/** Waits for a promise of something else, as long as `until` does. */
export async function within<T>(what: string, promise: Promise<T>, waiting: Waiting = {}): Promise<T> {
  const settled = promise.then(value => ({ value }))
  return (await until(what, () => settled, waiting)).value
}

function late(what: string, ms: number, seen: (() => unknown) | undefined): string {
  const sofar = seen === undefined ? '' : `; so far: ${inspect(seen(), { depth: 4, maxStringLength: 2000 })}`
  return `waited ${Math.round(ms)} ms for ${what}${sofar}`
}
