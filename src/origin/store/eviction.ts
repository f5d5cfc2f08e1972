/**
 * Room by eviction: the resources that were not used for longest are removed until there is some to spare.
 *
 * One process at a time evicts, under a lock of its own, and begins by counting what is there: another may have evicted
 * just before. What is found in that pass is removed one after another, each under its own lock and only if it was not
 * used since; one that is locked is being written, and is passed over.
 */
import { pause } from '../../pause.js'
import type { Objects } from './objects.js'
import { Oldest } from './oldest.js'
import type { ResourceLocks } from './resource-lock.js'
import type { Usage } from './usage.js'

/** No digest, so that it is the lock of no resource. */
const LOCK = 'eviction'
const LOCKED_MS = 50
/** Removed after one pass: some ten megabytes while it lasts. A store of more than a million needs passes more often. */
const MOST_AT_ONCE = 65_536
/** Removals side by side, as each waits for the disk most of the time. */
const AT_ONCE = 4

export interface EvictionOptions {
  readonly usage: Usage
  readonly objects: Objects
  readonly locks: ResourceLocks
  /** Told what a pass has removed, when it was anything. */
  readonly evicted: (objects: number, bytes: number) => void
}

export class Eviction {
  readonly #options: EvictionOptions
  readonly #closing = new AbortController()

  constructor(options: EvictionOptions) {
    this.#options = options
  }

  /**
   * Makes as much room as `usage` says is wanted, when it is its turn. It ends early when the store closes.
   * @returns the bytes that are gone
   * @throws what keeps everything from being removed
   */
  async run(): Promise<number> {
    const { signal } = this.#closing
    let bytes = 0
    const work = async (): Promise<void> => {
      bytes = await this.#evict()
    }
    while (!signal.aborted && !(await this.#options.locks.holdIfFree(LOCK, work))) {
      await pause(LOCKED_MS, signal)
    }
    return bytes
  }

  /** What is being removed is removed; nothing further is. */
  close(): void {
    this.#closing.abort()
  }

  async #evict(): Promise<number> {
    const { usage, objects, evicted } = this.#options
    const oldest = new Oldest(MOST_AT_ONCE)
    await usage.count(candidate => oldest.add(candidate))
    const { bytes, largest } = usage.excess()
    let freed = 0
    let pending = 0
    let removed = 0
    let failure: unknown
    const candidates = (bytes > 0 ? await oldest.take() : []).values()
    const work = async (): Promise<void> => {
      for (const candidate of candidates) {
        if (candidate.bytes > largest) continue
        pending += candidate.bytes
        try {
          const gone = await objects.evict(candidate)
          freed += gone
          if (gone > 0) removed++
        } catch (error) {
          failure ??= error
        }
        pending -= candidate.bytes
        if (freed + pending >= bytes || this.#closing.signal.aborted) return
      }
    }
    // Each begins only when what the others have begun would not do.
    const working: Promise<void>[] = []
    while (working.length < AT_ONCE && freed + pending < bytes) working.push(work())
    await Promise.all(working)
    if (removed > 0) evicted(removed, freed)
    else if (failure !== undefined) throw failure
    return freed
  }
}
