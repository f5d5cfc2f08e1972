/**
 * Files that are being written. Each process has a folder of its own for them, named by it, so that after a crash
 * whoever comes next can tell what nobody will finish.
 */
import { rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureDirectory } from './durable.js'
import { namesIn } from './folder.js'
import type { Owner } from './owner.js'

/** Begins the name of each of them: the directory may be one that others keep things in. */
const PREFIX = 'sluice-'
/** An upload that is still going on writes more often than that. */
const FOREIGN_LIMIT_MS = 60 * 60_000

export class TemporaryFiles {
  readonly #root: string
  readonly #owner: Owner
  readonly #randomId: () => string

  /** @param root the folder of the folders */
  constructor(root: string, owner: Owner, randomId: () => string) {
    this.#root = root
    this.#owner = owner
    this.#randomId = randomId
  }

  get #folder(): string {
    return join(this.#root, PREFIX + this.#owner.id)
  }

  /** The name of a file that does not exist yet, in a folder that does. */
  async next(): Promise<string> {
    await ensureDirectory(this.#folder)
    return join(this.#folder, this.#randomId())
  }

  /**
   * Removes what processes have left that are gone.
   * @param now milliseconds since the epoch
   */
  async sweep(now: number): Promise<void> {
    for (const folderName of await namesIn(this.#root)) {
      if (!folderName.startsWith(PREFIX)) continue
      const id = folderName.slice(PREFIX.length)
      const folder = join(this.#root, folderName)
      for (const name of await namesIn(folder)) {
        const file = join(folder, name)
        const age =
          now -
          (await stat(file).then(
            status => status.mtimeMs,
            () => now,
          ))
        if (await this.#owner.isGone(id, age, FOREIGN_LIMIT_MS)) await rm(file, { force: true })
      }
      // Does nothing while there is something in it, and a process that lost its folder makes it anew.
      if (id !== this.#owner.id) await rmdir(folder).catch(() => {})
    }
  }

  /** Removes the folder, if nothing in this process uses it any more. */
  async close(): Promise<void> {
    await rmdir(this.#folder).catch(() => {})
  }
}
