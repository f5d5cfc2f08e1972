/**
 * The index of collections: a folder for each collection, with an empty file for each name in it.
 *
 * A name is added before its resource is created and removed after that is deleted, so after a crash the index may have
 * names without a resource; readers check that the resource exists. Folders are shared by all writers below them and not
 * locked. The file system removes a folder only if it is empty. A writer that has removed one then removes its name from
 * the parent folder, and checks whether another writer has created the folder again in between. If a process is killed
 * between these steps, a collection may be missing from the listing of its parent until something below it is written
 * again.
 */
import { open, readFile, rename, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errorCode } from '../../errors.js'
import { inDirectory, openFolder, syncDirectory } from './directories.js'
import { isMissing } from './failures.js'
import { digestOf, type Layout, LONG_MARK } from './layout.js'
import { type SmallestNames, spelled } from './smallest-names.js'
import { splitPath } from './store-path.js'
import type { TemporaryFiles } from './temporary-files.js'
import { FILE_BYTES } from './usage.js'

/** Longest name that is spelled out in the name of its file. For a longer one, that is its beginning and a digest. */
const LONGEST_PLAIN = 100
/** Characters of a longer name that are spelled out. */
const LONG_PREFIX = 64
/** Entries of a folder that are read at a time, which takes two milliseconds. */
const SCAN_ENTRIES = 1024
/** The same for a reader that usually needs only the first few names. */
const LOOK_ENTRIES = 8
const NOT_EMPTY: ReadonlySet<string | undefined> = new Set(['ENOTEMPTY', 'EEXIST'])

export class CollectionIndex {
  readonly #layout: Layout
  readonly #temporary: TemporaryFiles

  constructor(layout: Layout, temporary: TemporaryFiles) {
    this.#layout = layout
    this.#temporary = temporary
  }

  /**
   * Adds a path, of a resource or a collection, to its parent collection, and that to its own parent, up to the root.
   * @param made called with the counted bytes of each file and folder that was created; if it throws, `add` ends there
   */
  async add(path: string, made: (bytes: number) => Promise<void> = async () => {}): Promise<void> {
    for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
      const folder = this.#layout.collectionFolder(at.parent)
      const { name } = at
      let bytes = 0
      const isNew = await inDirectory(
        folder,
        () => this.#create(folder, name),
        () => {
          bytes += FILE_BYTES
        },
      )
      if (isNew) bytes += entryBytes(name)
      if (bytes > 0) await made(bytes)
    }
  }

  /**
   * Removes a resource, and each collection that is empty then.
   * @returns the counted bytes of the removed files and folders
   */
  async remove(path: string): Promise<number> {
    let freed = 0
    for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
      const { parent, name } = at
      const folder = this.#layout.collectionFolder(parent)
      if (await removed(rm(join(folder, entryOf(name))))) freed += entryBytes(name)
      if (name.endsWith('/') && (await isThere(this.#layout.collectionFolder(parent + name)))) {
        await this.add(parent + name, async bytes => {
          freed -= bytes
        })
        return freed
      }
      try {
        if (await removed(rmdir(folder))) freed += FILE_BYTES
      } catch (error) {
        if (NOT_EMPTY.has(errorCode(error))) return freed
        throw error
      }
    }
    return freed
  }

  /**
   * Adds the names in a collection to each selection that wants them, in one pass. Names of collections end in `/`.
   * @param isWanted called from time to time; the scan ends once it returns false
   */
  async scan(
    path: string,
    selections: readonly SmallestNames[],
    isWanted: () => boolean = () => true,
  ): Promise<void> {
    const folder = this.#layout.collectionFolder(path)
    const directory = await openFolder(folder, SCAN_ENTRIES)
    if (directory === undefined) return
    let passed = 0
    for await (const { name: entry } of directory) {
      passed++
      if (passed % SCAN_ENTRIES === 0 && !isWanted()) return
      const mark = entry.indexOf(LONG_MARK)
      const start = mark === -1 ? entry : entry.slice(0, mark)
      const takers = selections.filter(selection =>
        mark === -1 ? selection.wants(entry) : selection.mayWant(start),
      )
      if (takers.length === 0) continue
      const name = mark === -1 ? plainName(entry) : await longName(folder, entry)
      if (name === undefined) continue
      const spelling = mark === -1 ? entry : spelled(name)
      for (const selection of takers) {
        if (!selection.wants(spelling)) continue
        selection.add(name)
        if (!selection.isFull) continue
        selection.shorten()
        // Sorting takes longest, so other work may run after it.
        await nextTurn()
      }
    }
  }

  /** The names in a collection, in no order, for a reader that needs only a few of them. */
  async *members(path: string): AsyncGenerator<string> {
    const folder = this.#layout.collectionFolder(path)
    const directory = await openFolder(folder, LOOK_ENTRIES)
    if (directory === undefined) return
    for await (const { name: entry } of directory) {
      const name = entry.includes(LONG_MARK) ? await longName(folder, entry) : plainName(entry)
      if (name !== undefined) yield name
    }
  }

  /** @returns whether the entry did not exist before */
  async #create(folder: string, name: string): Promise<boolean> {
    const path = join(folder, entryOf(name))
    let isNew = true
    if (path.includes(LONG_MARK, folder.length)) {
      isNew = !(await isThere(path))
      await this.#createLong(path, name)
    } else {
      try {
        const file = await open(path, 'wx', 0o600)
        await file.close()
      } catch (error) {
        if (errorCode(error) === 'EEXIST') return false
        throw error
      }
    }
    await syncDirectory(folder)
    return isNew
  }

  /** The file is always written anew, so that it is complete even if an earlier write was interrupted. */
  async #createLong(path: string, name: string): Promise<void> {
    const { path: temporary, file } = await this.#temporary.create()
    try {
      try {
        await file.writeFile(name, 'latin1')
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(temporary, path)
    } catch (error) {
      await rm(temporary, { force: true })
      throw error
    }
  }
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(() => true, missingIsFalse)
}

/** @returns whether something was removed */
async function removed(removal: Promise<void>): Promise<boolean> {
  return await removal.then(() => true, missingIsFalse)
}

function missingIsFalse(error: unknown): false {
  if (isMissing(error)) return false
  throw error
}

/** The counted bytes of the index entries of a path and the collections above it, if those contain nothing else. */
export function indexBytes(path: string): number {
  let bytes = 0
  for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
    bytes += FILE_BYTES + entryBytes(at.name)
  }
  return bytes
}

/** The counted bytes of the file of a name; that of a long name contains the name. */
function entryBytes(name: string): number {
  return FILE_BYTES + (name.length <= LONGEST_PLAIN ? 0 : name.length)
}

function entryOf(name: string): string {
  if (name.length <= LONGEST_PLAIN) return spelled(name)
  return `${spelled(name.slice(0, LONG_PREFIX))}${LONG_MARK}${digestOf(name)}`
}

function plainName(entry: string): string | undefined {
  const name = Buffer.from(entry, 'hex').toString('latin1')
  return entryOf(name) === entry ? name : undefined
}

async function longName(folder: string, entry: string): Promise<string | undefined> {
  try {
    const name = await readFile(join(folder, entry), 'latin1')
    return entryOf(name) === entry ? name : undefined
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}
