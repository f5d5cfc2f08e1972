/**
 * The ledger counts what limits apply to: reservations that are held, rates of requests, bytes that were transferred.
 *
 * The ledger of a single process answers at once. Worker processes share the ledger of the supervisor, and then an answer may
 * be a promise. The caller passes keys and limits with each call; limits may change between calls, because reservations
 * outlive a configuration.
 */
import { BoundedMap } from './bounded-map.js'

/** Promises are never rejected: a ledger that cannot be reached has a default answer. */
export interface Ledger {
  /**
   * Reserves one of `limit` units.
   * @returns whether one was free; if so, it is reserved until `release`
   */
  acquire(key: string, limit: number): boolean | Promise<boolean>
  /** Releases one unit that was acquired; to be called once for each. */
  release(key: string): void
  /**
   * Takes one token of a bucket that is refilled at `rate` tokens a second, up to `burst`.
   * @returns 0 if there was one, otherwise the seconds until there will be
   */
  take(key: string, rate: number, burst: number): number | Promise<number>
  /**
   * Counts bytes; 0 only reads the count. An hour begins with its first byte.
   * @returns 0 while fewer than `limit` bytes were counted in this hour, otherwise the seconds until its end
   */
  spend(key: string, bytes: number, limit: number): number | Promise<number>
}

/**
 * Most keys of rates, and of bytes. One more replaces the least recently used rate; of bytes, those with the largest part of
 * their limit left are removed, so that nobody can reset a used-up limit by using many names.
 */
const MAX_KEYS = 10_000
/** How many keys of bytes are removed together, because all have to be sorted for it. */
const FORGOTTEN_KEYS = 1000
const HOUR_MS = 3_600_000

interface Bucket {
  tokens: number
  filledAt: number
}

interface Hour {
  endsAt: number
  bytes: number
  /** The limit of the last call. */
  limit: number
}

/** The ledger of one process: it never returns a promise. */
export class LocalLedger implements Ledger {
  readonly #now: () => number
  /** How many units of each key are reserved; never 0. */
  readonly #held = new Map<string, number>()
  /** In the order of their last use. */
  readonly #buckets = new BoundedMap<string, Bucket>(MAX_KEYS)
  readonly #hours = new Map<string, Hour>()

  /** @param now milliseconds, monotonic */
  constructor(now: () => number) {
    this.#now = now
  }

  /** How many units of a key are reserved. */
  held(key: string): number {
    return this.#held.get(key) ?? 0
  }

  acquire(key: string, limit: number): boolean {
    const held = this.held(key)
    if (held >= limit) return false
    this.#held.set(key, held + 1)
    return true
  }

  release(key: string): void {
    const held = this.held(key)
    if (held > 1) this.#held.set(key, held - 1)
    else this.#held.delete(key)
  }

  take(key: string, rate: number, burst: number): number {
    const now = this.#now()
    const bucket = this.#buckets.get(key) ?? { tokens: burst, filledAt: now }
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * rate)
    bucket.filledAt = now
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    if (bucket.tokens < 1) return (1 - bucket.tokens) / rate
    bucket.tokens -= 1
    return 0
  }

  spend(key: string, bytes: number, limit: number): number {
    const now = this.#now()
    let hour = this.#hours.get(key)
    if (hour !== undefined && now >= hour.endsAt) {
      this.#hours.delete(key)
      hour = undefined
    }
    if (hour === undefined && bytes === 0) return 0
    if (hour === undefined) {
      if (this.#hours.size >= MAX_KEYS) this.#forgetHours(now)
      hour = { endsAt: now + HOUR_MS, bytes: 0, limit }
      this.#hours.set(key, hour)
    }
    hour.limit = limit
    hour.bytes += bytes
    return hour.bytes < limit ? 0 : (hour.endsAt - now) / 1000
  }

  /** Removes expired hours first, then those with the largest part of their limit left; of used-up ones, the first to end. */
  #forgetHours(now: number): void {
    const used = ({ endsAt, bytes, limit }: Hour): number => (endsAt <= now ? 0 : Math.min(1, bytes / limit))
    const hours = [...this.#hours].sort(([, a], [, b]) => used(a) - used(b) || a.endsAt - b.endsAt)
    for (const [key] of hours.slice(0, FORGOTTEN_KEYS)) this.#hours.delete(key)
  }
}
