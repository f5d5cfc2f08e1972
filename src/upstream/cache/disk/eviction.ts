/**
 * Room for what is new: what has not been used for longest goes, whichever process put it there.
 *
 * When an entry was used is the time of its file, which all processes see. There is no list of all entries: they are
 * looked at when room is needed, a few thousand at a time, in folders that digests have filled evenly. A store that holds
 * fewer is looked at as a whole, and exactly the oldest go; of a larger one the oldest quarter of those that were looked
 * at. Each time a twentieth of the limit is freed, so that it is rarely needed.
 */
import type { Entries, ListedEntry } from './entries.js'
import type { SharedUsage } from './usage.js'

const SAMPLE = 4000
const SHARE_OF_SAMPLE = 1 / 4
/** How full the directory is afterwards, of its limit. */
const FULL_SHARE = 0.95
/** Others may remove the same; how often what they do is looked at. */
const BETWEEN_LOOKS = 64
/** After all of the directory was looked at in vain: as long as what is being written fills it, say. */
const PAUSE_MS = 1000
/** Others may take the room that was made. */
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
  /** Counts everything; asked when there is less than the count says. */
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

  /** How many entries this process has removed for others. */
  get evicted(): number {
    return this.#evicted
  }

  /**
   * Counts so many bytes as used, which may need room to be made.
   * @returns false when there is none
   * @throws the system's error
   */
  async take(bytes: number): Promise<boolean> {
    const { usage } = this.#options
    this.#wanted += bytes
    try {
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        // Whoever has waited for the same may have written meanwhile.
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

  /** All who need room wait for the same. */
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
      // Others may have been faster to remove what there was.
      if ((await this.#round()) > 0 || this.#missing() <= 0) continue
      // There is less than the count says, or all of it is being written.
      await recount()
      if (this.#missing() > 0) this.#failedAt = now()
      return
    }
  }

  /** Looks at everything once, or until there is enough room. @returns how many entries it saw */
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
