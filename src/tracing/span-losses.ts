/**
 * The event of spans that nobody will get, `spans_lost`, for each reason with its own number: at once, and then once a
 * minute as long as it goes on.
 */
import type { Logger } from 'pino'

const INTERVAL_MS = 60_000

export class SpanLosses {
  readonly #logger: Logger
  readonly #now: () => number
  /** How many have not been told, by why. */
  readonly #lost = new Map<string, number>()
  #told = Number.NEGATIVE_INFINITY

  /** @param now milliseconds, monotonic */
  constructor(logger: Logger, now: () => number) {
    this.#logger = logger
    this.#now = now
  }

  /** @param error why */
  add(spans: number, error: string): void {
    this.#lost.set(error, (this.#lost.get(error) ?? 0) + spans)
    if (this.#now() - this.#told >= INTERVAL_MS) this.tell()
  }

  /** Tells what has not been told. */
  tell(): void {
    if (this.#lost.size === 0) return
    for (const [error, spans] of this.#lost) this.#logger.warn({ event: 'spans_lost', spans, error })
    this.#told = this.#now()
    this.#lost.clear()
  }
}
