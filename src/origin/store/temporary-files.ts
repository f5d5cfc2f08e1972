/**
 * Files that are being written. Each process has a folder of its own for them, named by it, so that after a crash
 * whoever comes next can tell what nobody will finish.
 */
import { type FileHandle, open, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Descriptors, noDescriptor } from '../../limits/descriptors.js'
import { inDirectory, namesIn } from './directories.js'
import type { Owner } from './owner.js'

/** Begins the name of each of them: the directory may be one that others keep things in. */
const PREFIX = 'sluice-'
/** An upload that is still going on writes more often than that. */
const FOREIGN_LIMIT_MS = 60 * 60_000

/** A new file, open for writing; who asked for it closes it, and renames or removes it. */
export interface TemporaryFile {
  readonly path: string
  readonly file: FileHandle
}

export class TemporaryFiles {
  readonly #root: string
  readonly #owner: Owner
  readonly #randomId: () => string
  readonly #descriptors: Descriptors

  /** @param root the folder of the folders */
  constructor(root: string, owner: Owner, randomId: () => string, descriptors: Descriptors) {
    this.#root = root
    this.#owner = owner
    this.#randomId = randomId
    this.#descriptors = descriptors
  }

  get #folder(): string {
    return join(this.#root, PREFIX + this.#owner.id)
  }

  /** Opened at once: a folder with nothing in it may be gone the next moment, by a sweep or a store that closes. */
  async create(): Promise<TemporaryFile> {
    const path = join(this.#folder, this.#randomId())
    const file = await inDirectory(this.#folder, () => open(path, 'wx', 0o600))
    if (!this.#descriptors.isKept(file.fd)) return { path, file }
    await file.close()
    await rm(path, { force: true })
    throw noDescriptor()
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
