/**
 * Files that are being written. Each process has a folder of its own for them, named after its owner id, so that after a
 * crash other processes can tell which files are abandoned.
 */
import { type FileHandle, open, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Descriptors, noDescriptor } from '../../limits/descriptors.js'
import { inDirectory, namesIn } from './directories.js'
import type { Owner } from './owner.js'

/** The beginning of the folders' names, as the directory may contain files of other programs. */
const PREFIX = 'sluice-'
/** Milliseconds without a write after which a file is taken to be abandoned if its process cannot be looked up. */
const FOREIGN_LIMIT_MS = 60 * 60_000

/** A new file, open for writing; the caller closes it, and renames or removes it. */
export interface TemporaryFile {
  readonly path: string
  readonly file: FileHandle
}

export class TemporaryFiles {
  readonly #root: string
  readonly #owner: Owner
  readonly #randomId: () => string
  readonly #descriptors: Descriptors

  /** @param root the folder that contains the folders of all processes */
  constructor(root: string, owner: Owner, randomId: () => string, descriptors: Descriptors) {
    this.#root = root
    this.#owner = owner
    this.#randomId = randomId
    this.#descriptors = descriptors
  }

  get #folder(): string {
    return join(this.#root, PREFIX + this.#owner.id)
  }

  /** Creates and opens a file at once, as an empty folder may be removed at any time by a sweep or a store that closes. */
  async create(): Promise<TemporaryFile> {
    const path = join(this.#folder, this.#randomId())
    const file = await inDirectory(this.#folder, () => open(path, 'wx', 0o600))
    if (!this.#descriptors.isKept(file.fd)) return { path, file }
    await file.close()
    await rm(path, { force: true })
    throw noDescriptor()
  }

  /**
   * Removes the files of processes that no longer exist.
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
      // A folder that is not empty is not removed, and a process whose folder was removed creates it again.
      if (id !== this.#owner.id) await rmdir(folder).catch(() => {})
    }
  }

  /** Removes the folder of this process, if it is empty. */
  async close(): Promise<void> {
    await rmdir(this.#folder).catch(() => {})
  }
}
