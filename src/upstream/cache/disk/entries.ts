/**
 * The entries of the directory as files: finds those of a key, lists a folder, removes.
 *
 * The file with the head is created last and removed first. So a killed process leaves at most a content without a head, which
 * no look-up finds.
 */
import { isMissing } from '../../../origin/store/failures.js'
import type { DiskFiles, FileStatus, ReadableFile } from './files.js'
import { DamagedEntry, type DiskEntry, INLINE_BYTES, MAX_HEAD_BYTES, parseEntry } from './entry-file.js'
import { bodyFile, entriesAmong, entryBytes, headFile, type Layout, type Place } from './layout.js'
import type { SharedUsage } from './usage.js'

/** The largest number of variants of one key; look-ups remove more. */
const MOST_OF_A_KEY = 64
const MAX_FILE_BYTES = MAX_HEAD_BYTES + INLINE_BYTES + 1024
/** A content that is still without a head after this time will never get one. */
const ORPHAN_MS = 10 * 60_000

/** What is known about an entry that was not read. */
export interface ListedEntry {
  readonly folder: string
  readonly id: string
  /** Bytes that it counts for. */
  readonly bytes: number
  /** Milliseconds since the epoch. */
  readonly usedAt: number
}

export interface Found {
  readonly entry: DiskEntry
  readonly usedAt: number
}

export interface EntriesOptions {
  readonly layout: Layout
  readonly files: DiskFiles
  readonly usage: SharedUsage
  /** Called for everything that is wrong; the work continues. */
  readonly onFailure: (error: unknown) => void
}

export class Entries {
  readonly #layout: Layout
  readonly #files: DiskFiles
  readonly #usage: SharedUsage
  readonly #onFailure: (error: unknown) => void

  constructor({ layout, files, usage, onFailure }: EntriesOptions) {
    this.#layout = layout
    this.#files = files
    this.#usage = usage
    this.#onFailure = onFailure
  }

  /**
   * Reads the entries at a place, and removes those that are damaged or that `isWanted` does not accept.
   * @throws the system's error
   */
  async read({ folder, prefix }: Place, isWanted: (entry: DiskEntry) => boolean): Promise<Found[]> {
    const { heads: ids } = entriesAmong(await this.namesIn(folder), prefix)
    for (const id of ids.slice(MOST_OF_A_KEY)) await this.#tryToRemove(folder, id)
    const found: Found[] = []
    for (const id of ids.slice(0, MOST_OF_A_KEY)) {
      try {
        const one = await this.readOne(folder, id)
        if (one === undefined) continue
        if (!isWanted(one.entry)) throw new DamagedEntry('it is in the place of another')
        found.push(one)
      } catch (error) {
        if (!(error instanceof DamagedEntry)) throw error
        this.#onFailure(error)
        await this.#tryToRemove(folder, id)
      }
    }
    return found
  }

  /**
   * @returns undefined if it does not exist
   * @throws DamagedEntry, and the system's error
   */
  async readOne(folder: string, id: string): Promise<Found | undefined> {
    let file: ReadableFile
    try {
      file = await this.#files.open(headFile(folder, id))
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
    let entry: DiskEntry
    try {
      if (file.status.size > MAX_FILE_BYTES) throw new DamagedEntry('its head is too long')
      const bytes = await file.read(0, file.status.size)
      entry = parseEntry({ folder, id }, bytes)
    } finally {
      file.close()
    }
    if (entry.content === undefined) {
      const body = await this.#status(bodyFile(folder, id))
      if (body === undefined) {
        // Another process has removed the entry meanwhile, unless the head still exists.
        if ((await this.#status(headFile(folder, id))) === undefined) return undefined
        throw new DamagedEntry('its content is not there')
      }
      if (body.size !== entry.length) throw new DamagedEntry('its content has another length')
    }
    return { entry, usedAt: file.status.modifiedMs }
  }

  /**
   * Lists the entries of a folder without reading them, and removes contents that will never get a head.
   * @param now milliseconds since the epoch
   */
  async list(folder: string, now: number): Promise<ListedEntry[]> {
    const { heads, bodies } = entriesAmong(await this.namesIn(folder))
    const listed: ListedEntry[] = []
    for (const id of heads) {
      const head = await this.#status(headFile(folder, id))
      if (head === undefined) continue
      const body = bodies.has(id) ? await this.#status(bodyFile(folder, id)) : undefined
      listed.push({
        folder,
        id,
        bytes: entryBytes(head.size, body?.size ?? 0),
        // A time in the future, set by a wrong clock, must not protect the entry.
        usedAt: Math.min(head.modifiedMs, now),
      })
      bodies.delete(id)
    }
    for (const id of bodies) {
      const path = bodyFile(folder, id)
      const status = await this.#status(path)
      if (status !== undefined && now - Math.max(status.changedMs, status.modifiedMs) > ORPHAN_MS) {
        await this.#unlink(path)
      }
    }
    return listed
  }

  /** The folders that hold entries. */
  async folders(): Promise<string[]> {
    return this.#layout.shardsAmong(await this.namesIn(this.#layout.directory))
  }

  /** Empty if there is no such folder. */
  async namesIn(folder: string): Promise<string[]> {
    try {
      return await this.#files.names(folder)
    } catch (error) {
      if (isMissing(error)) return []
      throw error
    }
  }

  /**
   * Makes an entry of complete files: first the content, if it has a file of its own, then the head.
   * @throws the system's error; nothing of it is in the folder then
   */
  async publish(folder: string, id: string, head: string, body: string | undefined): Promise<void> {
    if (body !== undefined) await this.#place(folder, body, bodyFile(folder, id))
    try {
      await this.#place(folder, head, headFile(folder, id))
    } catch (error) {
      if (body !== undefined) await this.#unlink(bodyFile(folder, id))
      throw error
    }
  }

  /** Replaces the head of an entry. @returns false if the entry is gone */
  async replaceHead(entry: DiskEntry, head: string): Promise<boolean> {
    const path = headFile(entry.folder, entry.id)
    if ((await this.#status(path)) === undefined) return false
    await this.#files.rename(head, path)
    return true
  }

  /**
   * Removes an entry; readings of its content continue. Its bytes are free for all processes.
   * @returns whether this call removed it
   * @throws the system's error, if it still exists
   */
  async remove(folder: string, id: string): Promise<boolean> {
    const head = await this.#status(headFile(folder, id))
    const body = await this.#status(bodyFile(folder, id))
    const isRemoved = await this.#unlink(headFile(folder, id))
    if (body !== undefined) await this.#unlink(bodyFile(folder, id))
    if (isRemoved && head !== undefined) this.#usage.add(-entryBytes(head.size, body?.size ?? 0), -1)
    return isRemoved
  }

  /** @returns the number of entries removed */
  async removeAll({ folder, prefix }: Place): Promise<number> {
    let count = 0
    for (const id of entriesAmong(await this.namesIn(folder), prefix).heads) {
      if (await this.remove(folder, id)) count++
    }
    return count
  }

  /** A failure does not affect other entries. */
  async #tryToRemove(folder: string, id: string): Promise<void> {
    await this.remove(folder, id).catch(this.#onFailure)
  }

  async #place(folder: string, from: string, to: string): Promise<void> {
    try {
      await this.#files.rename(from, to)
    } catch (error) {
      if (!isMissing(error)) throw error
      await this.#files.makeFolder(folder)
      await this.#files.rename(from, to)
    }
  }

  async #status(path: string): Promise<FileStatus | undefined> {
    try {
      return await this.#files.status(path)
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
  }

  /** @returns false if there is no such file */
  async #unlink(path: string): Promise<boolean> {
    try {
      await this.#files.remove(path)
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }
}
