/**
 * Keys that were to be forgotten while their server could not be reached. What it still has of them is stale, and must not
 * be found when it is back (RFC 9111 §4.4).
 */
import { type KeyNames, namesOf } from './keys.js'
import type { CacheKey } from '../../../cache/stored-response.js'

/** With more than that, everything is forgotten. */
const MOST_KEYS = 10_000

export class ForgottenKeys {
  readonly #keys = new Map<string, KeyNames>()
  #everything = false

  add(key: CacheKey): void {
    if (this.#everything) return
    const names = namesOf(key)
    this.#keys.set(names.entries, names)
    if (this.#keys.size <= MOST_KEYS) return
    this.#keys.clear()
    this.#everything = true
  }

  /** Whether there were too many to remember each. */
  get everything(): boolean {
    return this.#everything
  }

  /** @returns those for which `isOf` holds */
  of(isOf: (tag: string) => boolean): readonly KeyNames[] {
    return [...this.#keys.values()].filter(({ uri }) => isOf(uri.tag))
  }

  done(names: KeyNames): void {
    this.#keys.delete(names.entries)
  }

  everythingDone(): void {
    this.#everything = false
  }
}
