/**
 * What is below each collection: a folder a collection, with an empty file for each name in it.
 *
 * The index is made before a resource and removed after it, so it may say too much after a crash; who reads it looks
 * whether the resource is there. Folders are shared by all writers below them and not locked: a folder goes only when
 * it is empty, which the file system itself sees to, and who removed one looks again whether somebody has made it anew
 * before its name was gone from the folder above. Only a process that is killed between the two leaves a collection out
 * of the listing above it, until something is written below it again.
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

/** Longest name that is spelled out in the name of its file; those of longer ones begin with as much and end in a digest. */
const LONGEST_PLAIN = 100
const LONG_PREFIX = 64
/** Entries of a folder that are read at a time: those of a thousand take two milliseconds. */
const SCAN_ENTRIES = 1024
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
   * Enters a path, of a resource or of a collection, in the collection above it, and that in the one above.
   * @param made is told what each file and folder counts for that it has made; what it throws ends it there
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
   * Takes a resource out, and every collection with nothing left below it.
   * @returns what the files and folders counted for that are gone
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
   * Gives the names below a collection, of collections with their `/`, to each selection that wants them, in one pass.
   * @param isWanted asked now and then whether to go on
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
        // Sorting is what takes longest: everybody else is let in between.
        await nextTurn()
      }
    }
  }

  /** The names below a collection in no order, one after another: for those who look for one alone. */
  async *members(path: string): AsyncGenerator<string> {
    const folder = this.#layout.collectionFolder(path)
    const directory = await openFolder(folder, LOOK_ENTRIES)
    if (directory === undefined) return
    for await (const { name: entry } of directory) {
      const name = entry.includes(LONG_MARK) ? await longName(folder, entry) : plainName(entry)
      if (name !== undefined) yield name
    }
  }

  /** @returns whether there was none */
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

  /** Written anew each time, so that it is whole whatever happened before. */
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

/** @returns whether there was something to remove */
async function removed(removal: Promise<void>): Promise<boolean> {
  return await removal.then(() => true, missingIsFalse)
}

function missingIsFalse(error: unknown): false {
  if (isMissing(error)) return false
  throw error
}

/** What the names of a path and the collections above it count for, where there is nothing else below them. */
export function indexBytes(path: string): number {
  let bytes = 0
  for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
    bytes += FILE_BYTES + entryBytes(at.name)
  }
  return bytes
}

/** What the file of a name counts for: a long one has the name in it. */
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
