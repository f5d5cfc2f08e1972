/**
 * Evicts the least recently used entries to make room, whichever process wrote them.
 *
 * The modification time of its file says when an entry was used, for all processes. There is no list of all entries: when room
 * is needed, a few thousand are sampled, in folders that digests have filled evenly. If the store holds fewer, all are looked
 * at, and exactly the oldest are evicted; otherwise the oldest quarter of the sample. Each eviction frees a twentieth of the
 * limit, so that it is rarely needed.
 */
import type { Entries, ListedEntry } from './entries.js'
import type { SharedUsage } from './usage.js'

const SAMPLE = 4000
const SHARE_OF_SAMPLE = 1 / 4
/** How full the directory is after an eviction, as a part of the limit. */
const FULL_SHARE = 0.95
/** After how many removals to check what other processes have removed. */
const BETWEEN_LOOKS = 64
/** The pause after a complete search that found nothing, for example because unfinished entries fill the directory. */
const PAUSE_MS = 1000
/** Other processes may take the room that was made. */
const MOST_TRIES = 20
const MOST_ROUNDS = 5

export interface EvictionOptions {
  readonly entries: Entries
  readonly usage: SharedUsage
  readonly maxBytes: number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** From 0 to below 1. */
  readonly random: () => number
  /** Counts all entries; called if there is less to evict than the shared count says. */
  readonly recount: () => Promise<void>
}

export class Eviction {
  readonly #options: EvictionOptions
  #running: Promise<void> | undefined
  #wanted = 0
  #evicted = 0
  #failedAt = Number.NEGATIVE_INFINITY

  constructor(options: EvictionOptions) {
    this.#options = options
  }

  /** The number of entries that this process has evicted. */
  get evicted(): number {
    return this.#evicted
  }

  /**
   * Counts bytes as used, after an eviction if necessary.
   * @returns false if there is no room
   * @throws the system's error
   */
  async take(bytes: number): Promise<boolean> {
    const { usage } = this.#options
    this.#wanted += bytes
    try {
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        // Others that waited for the same eviction may have written meanwhile.
        if (usage.isOld) await usage.sync()
        else if (this.#fits(bytes)) {
          usage.add(bytes, 0)
          return true
        } else await this.#makeRoom()
      }
      return false
    } finally {
      this.#wanted -= bytes
    }
  }

  #fits(bytes: number): boolean {
    return this.#options.usage.bytes + bytes <= this.#options.maxBytes
  }

  /** All callers that need room wait for the same eviction. */
  #makeRoom(): Promise<void> {
    if (this.#options.now() - this.#failedAt < PAUSE_MS) return Promise.resolve()
    this.#running ??= this.#evict().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  #missing(): number {
    const { usage, maxBytes } = this.#options
    return usage.bytes + this.#wanted - maxBytes * FULL_SHARE
  }

  async #evict(): Promise<void> {
    const { usage, recount, now } = this.#options
    await usage.sync()
    for (let round = 0; round < MOST_ROUNDS && this.#missing() > 0; round++) {
      // Other processes may have removed the same entries first.
      if ((await this.#round()) > 0 || this.#missing() <= 0) continue
      // There is less than the count says, or everything is still being written.
      await recount()
      if (this.#missing() > 0) this.#failedAt = now()
      return
    }
  }

  /** Searches the whole directory once, or until there is enough room. @returns the number of entries seen */
  async #round(): Promise<number> {
    const { entries, usage, wallClock, random } = this.#options
    const all = await entries.folders()
    const first = Math.floor(random() * all.length)
    const folders = [...all.slice(first), ...all.slice(0, first)]
    let sample: ListedEntry[] = []
    let seen = 0
    for (const [index, folder] of folders.entries()) {
      sample.push(...(await entries.list(folder, wallClock())))
      const isLast = index === folders.length - 1
      if (!isLast && sample.length < SAMPLE) continue
      seen += sample.length
      const isSmall = isLast && sample.length < SAMPLE
      await this.#removeOldest(sample, isSmall ? sample.length : Math.ceil(sample.length * SHARE_OF_SAMPLE))
      await usage.sync()
      if (this.#missing() <= 0) break
      sample = []
    }
    return seen
  }

  async #removeOldest(sample: ListedEntry[], most: number): Promise<void> {
    const { entries, usage } = this.#options
    sample.sort((a, b) => a.usedAt - b.usedAt)
    for (const [index, { folder, id }] of sample.slice(0, most).entries()) {
      if (this.#missing() <= 0) return
      if (await entries.remove(folder, id)) this.#evicted++
      if (index % BETWEEN_LOOKS === BETWEEN_LOOKS - 1) await usage.sync()
    }
  }
}
