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
import { inDirectory, syncDirectory } from './durable.js'
import { errorCode, isMissing } from './failures.js'
import { namesIn } from './folder.js'
import { digestOf, type Layout } from './layout.js'
import { splitPath } from './store-path.js'
import type { TemporaryFiles } from './temporary-files.js'

/** Longest name that is spelled out in the name of its file; those of longer ones begin with as much and end in a digest. */
const LONGEST_PLAIN = 100
const LONG_PREFIX = 64
const LONG_MARK = '~'
const NOT_EMPTY: ReadonlySet<string | undefined> = new Set(['ENOTEMPTY', 'EEXIST'])

export class CollectionIndex {
  readonly #layout: Layout
  readonly #temporary: TemporaryFiles

  constructor(layout: Layout, temporary: TemporaryFiles) {
    this.#layout = layout
    this.#temporary = temporary
  }

  /** Enters a path, of a resource or of a collection, in the collection above it, and that in the one above. */
  async add(path: string): Promise<void> {
    for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
      const folder = this.#layout.collectionFolder(at.parent)
      const { name } = at
      await inDirectory(folder, () => this.#create(folder, name))
    }
  }

  /** Takes a resource out, and every collection with nothing left below it. */
  async remove(path: string): Promise<void> {
    for (let at = splitPath(path); at !== undefined; at = splitPath(at.parent)) {
      const { parent, name } = at
      const folder = this.#layout.collectionFolder(parent)
      await rm(join(folder, entryOf(name)), { force: true })
      if (name.endsWith('/') && (await this.#exists(parent + name))) {
        await this.add(parent + name)
        return
      }
      try {
        await rmdir(folder)
      } catch (error) {
        if (NOT_EMPTY.has(errorCode(error))) return
        if (!isMissing(error)) throw error
      }
    }
  }

  /** The names below a collection, sorted; of collections with their `/`. */
  async names(path: string): Promise<string[]> {
    const folder = this.#layout.collectionFolder(path)
    const names: string[] = []
    for (const entry of await namesIn(folder)) {
      const name = entry.includes(LONG_MARK) ? await longName(folder, entry) : plainName(entry)
      if (name !== undefined) names.push(name)
    }
    return names.sort()
  }

  async #exists(collection: string): Promise<boolean> {
    try {
      await stat(this.#layout.collectionFolder(collection))
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }

  async #create(folder: string, name: string): Promise<void> {
    const entry = entryOf(name)
    if (entry.includes(LONG_MARK)) await this.#createLong(join(folder, entry), name)
    else {
      try {
        const file = await open(join(folder, entry), 'wx', 0o600)
        await file.close()
      } catch (error) {
        if (errorCode(error) === 'EEXIST') return
        throw error
      }
    }
    await syncDirectory(folder)
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

/** Digits alone, as file systems may take `a` and `A` for one name. */
function entryOf(name: string): string {
  const bytes = Buffer.from(name, 'latin1')
  if (bytes.length <= LONGEST_PLAIN) return bytes.toString('hex')
  return `${bytes.toString('hex', 0, LONG_PREFIX)}${LONG_MARK}${digestOf(name)}`
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
