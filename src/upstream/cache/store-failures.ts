/**
 * Logs failures of a store: `cache_store_down` at the first failure and then once a minute while failures continue, and
 * `cache_store_up` when the store works again. Otherwise a store that fails at every request would fill the log.
 */
import { errorCode } from '../../errors.js'

/** The interval between two lines while failures continue. */
const INTERVAL_MS = 60_000

export type StoreEvent =
  /** @property failures how many occurred since the last line */
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
  /** Whether the last line was `cache_store_down`. A store that fails now and then is logged once a minute, too. */
  #loggedDown = false

  constructor(options: StoreFailuresOptions) {
    this.#options = options
  }

  /** @param error its message is logged and must not contain a secret */
  report(error: unknown): void {
    this.#failures++
    const now = this.#options.now()
    if (now - this.#loggedAt < INTERVAL_MS) return
    this.#loggedAt = now
    this.#loggedDown = true
    this.#options.log({ event: 'cache_store_down', error: describe(error), failures: this.#failures })
    this.#failures = 0
  }

  /** The store works again. This is logged only if its failure was. */
  recovered(): void {
    if (!this.#loggedDown) return
    this.#loggedDown = false
    this.#failures = 0
    this.#options.log({ event: 'cache_store_up' })
  }
}

/** Messages of the system begin with their code; it is added to others. */
function describe(error: unknown): string {
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  const code = errorCode(error)
  return code === undefined || message.includes(code) ? message : `${code}: ${message}`
}
