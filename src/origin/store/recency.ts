/**
 * When each resource was last used: the modification time of its file, which is that of the last write by itself, and is
 * set anew when the resource is read. So it outlives the process, is the same for all that share the directory, and does
 * not depend on how the disk is mounted, as access times do. What the resource says of its last write is in its metadata.
 */
import { utimes } from 'node:fs/promises'

/** A use is noted when the last one noted is as long ago: a resource that is read all the time is not written all the time. */
export const RESOLUTION_MS = 60_000

export class Recency {
  readonly #now: () => number
  /** Files whose use is being noted. */
  readonly #noting = new Set<string>()

  /** @param now milliseconds since the epoch, as the file system has them */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Whether a use is worth noting. A time in the future is of a clock that was wrong, and would last for as long. */
  isDue(usedMs: number): boolean {
    return Math.abs(this.#now() - usedMs) > RESOLUTION_MS
  }

  /** Never fails: what cannot be noted is taken for less recently used than it is. */
  async note(file: string): Promise<void> {
    if (this.#noting.has(file)) return
    const now = this.#now() / 1000
    this.#noting.add(file)
    // A version that has replaced it meanwhile is as recent.
    await utimes(file, now, now).catch(() => {})
    this.#noting.delete(file)
  }
}
