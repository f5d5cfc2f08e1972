/**
 * Records when each resource was last used, as the modification time of its file: the system sets that when the file is
 * written, and this class sets it when the resource is read. So it survives the process, is shared by all processes that
 * use the directory, and does not depend on mount options as access times do. The time of the last write is in the
 * resource's metadata.
 */
import { utimes } from 'node:fs/promises'

/** A use is recorded only if the last recorded one is longer ago, so that frequent reads do not cause frequent writes. */
export const RESOLUTION_MS = 60_000

export class Recency {
  readonly #now: () => number
  /** Files whose time is being set. */
  readonly #recording = new Set<string>()

  /** @param now milliseconds since the epoch, by the clock that the file system uses */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Whether a use has to be recorded. A time in the future comes from a clock that was wrong, and is corrected. */
  isDue(usedMs: number): boolean {
    return Math.abs(this.#now() - usedMs) > RESOLUTION_MS
  }

  /** Records a use. Never rejects: if it fails, the resource counts as less recently used than it is. */
  async record(file: string): Promise<void> {
    if (this.#recording.has(file)) return
    const now = this.#now() / 1000
    this.#recording.add(file)
    // If another version has replaced the file meanwhile, the time is right for that, too.
    await utimes(file, now, now).catch(() => {})
    this.#recording.delete(file)
  }
}
