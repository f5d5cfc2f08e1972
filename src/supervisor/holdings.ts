/** What one worker holds of what limits are the number of: when it ends, nobody else gives it back. */
import type { LocalLedger } from '../limits/ledger.js'

export class Holdings {
  readonly #ledger: LocalLedger
  readonly #held = new Map<string, number>()

  constructor(ledger: LocalLedger) {
    this.#ledger = ledger
  }

  acquire(key: string, limit: number): boolean {
    const acquired = this.#ledger.acquire(key, limit)
    if (acquired) this.#held.set(key, (this.#held.get(key) ?? 0) + 1)
    return acquired
  }

  release(key: string): void {
    const held = this.#held.get(key) ?? 0
    if (held === 0) return
    if (held > 1) this.#held.set(key, held - 1)
    else this.#held.delete(key)
    this.#ledger.release(key)
  }

  releaseAll(): void {
    for (const [key, held] of this.#held) for (let i = 0; i < held; i++) this.#ledger.release(key)
    this.#held.clear()
  }
}
