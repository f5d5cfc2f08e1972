/**
 * The signal that an exchange has ended early: what of an AbortSignal is needed, without its cost. Every request has one, and a
 * real one costs as much as reading the request head.
 */
import type { CancelSignal } from '../exchange.js'

/** Fires once, when nobody waits any more for what is done for the exchange. */
export class AbortedSignal implements CancelSignal {
  #reason: Error | undefined
  readonly #listeners = new Set<() => void>()

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  get reason(): unknown {
    return this.#reason
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#reason === undefined) this.#listeners.add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener)
  }

  /** Calls every listener, once; a second call does nothing. */
  fire(): void {
    if (this.#reason !== undefined) return
    this.#reason = new Error('the exchange has ended early')
    for (const listener of this.#listeners) listener()
    this.#listeners.clear()
  }
}
