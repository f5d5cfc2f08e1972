/** The event of spans that nobody will get, `spans_lost`: at once, and then once a minute as long as it goes on. */
import type { Logger } from 'pino'

const INTERVAL_MS = 60_000

export class SpanLosses {
  readonly #logger: Logger
  readonly #now: () => number
  #told = Number.NEGATIVE_INFINITY
  #lost = 0
  #error = ''

  /** @param now milliseconds, monotonic */
  constructor(logger: Logger, now: () => number) {
    this.#logger = logger
    this.#now = now
  }

  /** @param error why, of the last of them */
  add(spans: number, error: string): void {
    this.#lost += spans
    this.#error = error
    if (this.#now() - this.#told >= INTERVAL_MS) this.tell()
  }

  /** Tells what has not been told. */
  tell(): void {
    if (this.#lost === 0) return
    this.#logger.warn({ event: 'spans_lost', spans: this.#lost, error: this.#error })
    this.#told = this.#now()
    this.#lost = 0
  }
}
