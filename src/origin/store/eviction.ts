/**
 * Room by eviction: the resources that were not used for longest are removed until there is some to spare.
 *
 * Each count of what is there finds the oldest. These are removed one after another, each under its own lock and only if
 * it was not used since; one that is locked is being written, and is passed over. A count takes seconds in a large store,
 * so there is none before an eviction until few of them are left, or one turns out to be gone: then another process
 * evicts, too. Who has no room while such a count goes on has as much removed as it needs of what the last one has left.
 *
 * One process evicts at a time, under a lock of its own, as another may have made room just before. That saves work and
 * is needed for nothing else: who has waited for it for too long does without.
 */
import { pause } from '../../pause.js'
import type { Objects } from './objects.js'
import { type Candidate, Oldest } from './oldest.js'
import type { ResourceLocks } from './resource-lock.js'
import type { CountVisitor, Excess, Usage } from './usage.js'

/** No digest, so that it is the lock of no resource. */
const LOCK = 'eviction'
const LOCKED_MS = 50
/** How long another process is waited for. */
const WAIT_LIMIT_MS = 10_000
/** Kept from one count: some ten megabytes. */
const MOST_KNOWN = 65_536
/** With fewer left there is a new count first, and these are there for those who have no room meanwhile. */
const FEW = 8192
/** Removals side by side, as each waits for the disk most of the time. */
const AT_ONCE = 4

export interface EvictionOptions {
  readonly usage: Usage
  readonly objects: Objects
  readonly locks: ResourceLocks
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Told what was removed each time, when it was anything. */
  readonly evicted: (objects: number, bytes: number) => void
}

export class Eviction {
  readonly #options: EvictionOptions
  readonly #closing = new AbortController()
  /** What the last count has found and nobody has taken yet, the least recently used last. */
  #known: Candidate[] = []
  /** Whether these were more than a few. */
  #isLarge = false
  /** How many this process has removed. */
  #removed = 0
  /** How many of those that are known it may have removed itself, while they were being found. */
  #goneByItself = 0

  constructor(options: EvictionOptions) {
    this.#options = options
  }

  /**
   * Makes as much room as `usage` says is wanted, when it is its turn. It ends early when the store closes.
   * @returns the bytes that are gone
   * @throws what keeps everything from being removed
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

  /** Makes room for those who wait, of what is known to be old, in a store that takes long to count. @returns as `run` */
  async runAtOnce(): Promise<number> {
    if (!this.#isLarge) return 0
    return await this.#remove({ bytes: this.#options.usage.shortage(), largest: Number.POSITIVE_INFINITY })
  }

  /** The oldest of a count are what goes next. */
  startCount(): CountVisitor {
    const oldest = new Oldest(MOST_KNOWN)
    const before = this.#removed
    return {
      visit: candidate => {
        this.#closing.signal.throwIfAborted()
        oldest.add(candidate)
      },
      end: async () => {
        this.#known = (await oldest.take()).reverse()
        this.#isLarge = this.#known.length >= FEW
        this.#goneByItself = this.#removed - before
      },
    }
  }

  /** What is being removed is removed; nothing further is, and nothing is counted for it. */
  close(): void {
    this.#closing.abort()
  }

  async #evict(): Promise<number> {
    const { usage } = this.#options
    let freed = 0
    if (this.#known.length >= FEW) {
      freed = await this.#remove(usage.excess(), 'while they are there')
      if (usage.excess().bytes <= 0) return freed
    }
    await usage.count()
    return freed + (await this.#remove(usage.excess()))
  }

  /**
   * @param mode whether to end at one that is not there any more: another process evicts, too, so the count of this one
   *   is too high
   */
  async #remove({ bytes, largest }: Excess, mode?: 'while they are there'): Promise<number> {
    const { objects, evicted } = this.#options
    let freed = 0
    let pending = 0
    let removed = 0
    let isOver = false
    let failure: unknown
    const work = async (): Promise<void> => {
      while (!isOver && freed + pending < bytes && !this.#closing.signal.aborted) {
        const candidate = this.#known.pop()
        if (candidate === undefined) return
        if (candidate.bytes > largest) continue
        pending += candidate.bytes
        try {
          const gone = await objects.evict(candidate)
          freed += gone ?? 0
          if (gone === undefined) isOver ||= this.#goneByItself-- <= 0 && mode !== undefined
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
    // Each begins only when what the others have begun would not do.
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    if (removed > 0) evicted(removed, freed)
    else if (failure !== undefined) throw failure
    return freed
  }
}
