/**
 * The events of a store that cannot be used: `cache_store_down` at once and then once a minute as long as it goes on, and
 * `cache_store_up` when it is back. A store that fails at every request would fill the log otherwise.
 */
import { errorCode } from '../../errors.js'

/** How often a failure that goes on is logged. */
const INTERVAL_MS = 60_000

export type StoreEvent =
  /** @property failures how many there were since the last line */
  | { readonly event: 'cache_store_down'; readonly error: string; readonly failures: number }
  | { readonly event: 'cache_store_up' }

export interface StoreFailuresOptions {
  readonly log: (event: StoreEvent) => void
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

export class StoreFailures {
  readonly #options: StoreFailuresOptions
  #loggedAt = Number.NEGATIVE_INFINITY
  #failures = 0
  /** Whether the last line was that it is down: one that comes and goes is logged once a minute, too. */
  #loggedDown = false

  constructor(options: StoreFailuresOptions) {
    this.#options = options
  }

  /** @param error its message is logged, so it must hold no secret */
  report(error: unknown): void {
    this.#failures++
    const now = this.#options.now()
    if (now - this.#loggedAt < INTERVAL_MS) return
    this.#loggedAt = now
    this.#loggedDown = true
    this.#options.log({ event: 'cache_store_down', error: describe(error), failures: this.#failures })
    this.#failures = 0
  }

  /** It can be used again. Nothing is logged where no failure was logged before. */
  recovered(): void {
    if (!this.#loggedDown) return
    this.#loggedDown = false
    this.#failures = 0
    this.#options.log({ event: 'cache_store_up' })
  }
}

/** The system's messages begin with the code; others are given theirs. */
function describe(error: unknown): string {
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  const code = errorCode(error)
  return code === undefined || message.includes(code) ? message : `${code}: ${message}`
}
