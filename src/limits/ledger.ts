/**
 * The books that limits are kept in: what is held now, how fast it was asked for, how many bytes have passed.
 *
 * Limits know nothing of where these books are. In one process they are here and answer at once; several processes
 * share them, and then an answer may be a promise. The keys belong to whoever asks, and so do the limits, which may be
 * others the next time: what is held outlasts a configuration.
 */
import { BoundedMap } from './bounded-map.js'

/** Answers of a promise never are rejections: a ledger that can not be reached has an answer of its own. */
export interface Ledger {
  /**
   * Takes one of what `limit` is the number of.
   * @returns whether there was one left; if so, it is held until `release`
   */
  acquire(key: string, limit: number): boolean | Promise<boolean>
  /** Gives back one that was acquired, each once. */
  release(key: string): void
  /**
   * Takes one of what comes in at `rate` a second and is kept up to `burst`.
   * @returns 0 when there was one, else the seconds until there will be
   */
  take(key: string, rate: number, burst: number): number | Promise<number>
  /**
   * Books bytes; none asks how things stand. The hour begins with its first byte.
   * @returns 0 while fewer than `limit` have passed in this hour, else the seconds until it is over
   */
  spend(key: string, bytes: number, limit: number): number | Promise<number>
}

/**
 * Keys remembered of rates, and of bytes. For a further one the rate that was asked for longest ago is forgotten, and of
 * bytes those of which the most are left: nobody gets rid of what is used up by asking under many names.
 */
const MAX_KEYS = 10_000
/** Keys of bytes that are forgotten at once, as they have to be sorted for it. */
const FORGOTTEN_KEYS = 1000
const HOUR_MS = 3_600_000

interface Bucket {
  tokens: number
  filledAt: number
}

interface Hour {
  endsAt: number
  bytes: number
  /** The one that was asked for last. */
  limit: number
}

/** The books of one process: nothing here is a promise. */
export class LocalLedger implements Ledger {
  readonly #now: () => number
  /** No more keys than things that are held. */
  readonly #held = new Map<string, number>()
  /** The key that was used last stands last. */
  readonly #buckets = new BoundedMap<string, Bucket>(MAX_KEYS)
  readonly #hours = new Map<string, Hour>()

  /** @param now milliseconds, monotonic */
  constructor(now: () => number) {
    this.#now = now
  }

  /** How many of it are held. */
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

  /** Those that are over first, then those with the most left, and of those with none the one that is over first. */
  #forgetHours(now: number): void {
    const used = ({ endsAt, bytes, limit }: Hour): number => (endsAt <= now ? 0 : Math.min(1, bytes / limit))
    const hours = [...this.#hours].sort(([, a], [, b]) => used(a) - used(b) || a.endsAt - b.endsAt)
    for (const [key] of hours.slice(0, FORGOTTEN_KEYS)) this.#hours.delete(key)
  }
}
