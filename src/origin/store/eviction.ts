/**
 * Makes room by removing the least recently used resources, until there is some space to spare.
 *
 * Each count of the store's bytes also finds the least recently used resources: the candidates. They are removed one after
 * another, each under its own lock, and only if it has not been used since. A locked resource is being written, and is
 * skipped. Counting a large store takes seconds, so an eviction uses the candidates of the last count as long as there
 * are enough of them. It also counts again when a candidate no longer exists, because then another process is evicting,
 * too. A write that needs room during such a count gets it from the candidates that are left.
 *
 * One process evicts at a time, under a separate lock, as another process may just have made room. This only saves work:
 * a process that has waited too long for the lock evicts without it.
 */
import { pause } from '../../pause.js'
import type { Objects } from './objects.js'
import { type Candidate, LeastRecentlyUsed } from './least-recently-used.js'
import type { ResourceLocks } from './resource-lock.js'
import type { CountVisitor, Excess, Usage } from './usage.js'

/** The key of that lock. It is not a digest, so it cannot be the lock of a resource. */
const LOCK = 'eviction'
const LOCKED_MS = 50
/** Milliseconds to wait for another process that is evicting. */
const WAIT_LIMIT_MS = 10_000
/** Maximum number of candidates that are kept from a count; they take some ten megabytes. */
const MAX_CANDIDATES = 65_536
/** If fewer candidates are left, an eviction counts first; writes that need room during that count use the rest. */
const MIN_CANDIDATES = 8192
/** Parallel removals, as each waits for the disk most of the time. */
const CONCURRENCY = 4

export interface EvictionOptions {
  readonly usage: Usage
  readonly objects: Objects
  readonly locks: ResourceLocks
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Called after each eviction that has removed something. */
  readonly evicted: (objects: number, bytes: number) => void
}

export class Eviction {
  readonly #options: EvictionOptions
  readonly #closing = new AbortController()
  /** The candidates of the last count that are left, the least recently used last. */
  #candidates: Candidate[] = []
  /** Whether the last count has found at least MIN_CANDIDATES. */
  #isLarge = false
  /** How many resources this process has removed. */
  #removed = 0
  /** How many of the candidates this process may have removed itself, during the count that found them. */
  #removedInCount = 0

  constructor(options: EvictionOptions) {
    this.#options = options
  }

  /**
   * Makes as much room as `usage` requires, when no other process is evicting. It ends early if the store closes.
   * @returns the counted bytes that were removed
   * @throws the first error if nothing could be removed
   */
  async run(): Promise<number> {
    const { locks, now } = this.#options
    const { signal } = this.#closing
    const askedAt = now()
    let bytes = 0
    const work = async (): Promise<void> => {
      bytes = await this.#evict()
    }
    while (!signal.aborted && !(await locks.holdIfFree(LOCK, work))) {
      if (now() - askedAt > WAIT_LIMIT_MS) {
        await work()
        break
      }
      await pause(LOCKED_MS, signal)
    }
    return bytes
  }

  /** Makes room for waiting writes from the candidates that are left, if the store takes long to count. @returns see `run` */
  async runAtOnce(): Promise<number> {
    if (!this.#isLarge) return 0
    return await this.#remove({ bytes: this.#options.usage.shortage(), largest: Number.POSITIVE_INFINITY })
  }

  /** Makes the visitor that collects the candidates of a count. */
  startCount(): CountVisitor {
    const oldest = new LeastRecentlyUsed(MAX_CANDIDATES)
    const before = this.#removed
    return {
      visit: candidate => {
        this.#closing.signal.throwIfAborted()
        oldest.add(candidate)
      },
      end: async () => {
        this.#candidates = (await oldest.take()).reverse()
        this.#isLarge = this.#candidates.length >= MIN_CANDIDATES
        this.#removedInCount = this.#removed - before
      },
    }
  }

  /** Removals in progress are completed; no further ones, and no counts, are started. */
  close(): void {
    this.#closing.abort()
  }

  async #evict(): Promise<number> {
    const { usage } = this.#options
    let freed = 0
    if (this.#candidates.length >= MIN_CANDIDATES) {
      freed = await this.#remove(usage.excess(), 'stop at missing')
      if (usage.excess().bytes <= 0) return freed
    }
    await usage.count()
    return freed + (await this.#remove(usage.excess()))
  }

  /**
   * @param mode whether to end at a candidate that no longer exists: another process is evicting, too, so the count of
   *   this one is too high
   */
  async #remove({ bytes, largest }: Excess, mode?: 'stop at missing'): Promise<number> {
    const { objects, evicted } = this.#options
    let freed = 0
    let pending = 0
    let removed = 0
    let isOver = false
    let failure: unknown
    const work = async (): Promise<void> => {
      while (!isOver && freed + pending < bytes && !this.#closing.signal.aborted) {
        const candidate = this.#candidates.pop()
        if (candidate === undefined) return
        if (candidate.bytes > largest) continue
        pending += candidate.bytes
        try {
          const gone = await objects.evict(candidate)
          freed += gone ?? 0
          if (gone === undefined) isOver ||= this.#removedInCount-- <= 0 && mode !== undefined
          else if (gone > 0) {
            removed++
            this.#removed++
          }
        } catch (error) {
          failure ??= error
        }
        pending -= candidate.bytes
      }
    }
    // Each starts another removal only if those in progress are not enough.
    await Promise.all(Array.from({ length: CONCURRENCY }, work))
    if (removed > 0) evicted(removed, freed)
    else if (failure !== undefined) throw failure
    return freed
  }
}
