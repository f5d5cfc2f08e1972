/**
 * How much the cache holds, as all of the processes know that share its directory.
 *
 * A file has a line for each change, `bytes entries`, appended by whoever made it, and begins with what was counted last.
 * Each process reads what the others have appended since, before it writes something itself: when it last looked a tenth
 * of a second ago, or has written a 128th of the limit since then. So nobody looks at the entries to know how much they
 * are; and what a killed process has not told any more is found when they are counted anew.
 *
 * The bound: no process writes more than a 128th of the limit, and one piece of 256 KiB, beyond what it would if it knew
 * all. When N write at the same time the directory therefore holds at most the limit and N times that, however fast they
 * are. What is on its way counts as if it had come.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises'
import { isMissing } from '../../../origin/store/failures.js'
import { openOwnFile } from './files.js'

/** How old what is known of other processes may be when something is written. */
const SHARE_MS = 100
/** How much of the limit may be written without asking them. */
export const UNSHARED_PART = 1 / 128
/** The file is written anew when it has become longer: an hour and more of a process that writes all the time. */
const LONGEST_BYTES = 512 * 1024
const READ_BYTES = 64 * 1024
const APPENDED = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT
/** Of the limit: what may change while it is counted. */
const INEXACT_PART = 1 / 100

export interface Amount {
  readonly bytes: number
  readonly entries: number
}

export interface UsageOptions {
  /** The file. */
  readonly path: string
  /** A name for one that is written anew; in the same file system. */
  readonly newPath: () => string
  readonly makeFolder: () => Promise<void>
  readonly maxBytes: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly onFailure: (error: unknown) => void
}

export class SharedUsage {
  readonly #options: UsageOptions
  /** What the file said, up to `#read` bytes of it. */
  #bytes = 0
  #entries = 0
  #file: string | undefined
  #read = 0
  /** What this process has appended and not read back. */
  #unreadBytes = 0
  #unreadEntries = 0
  /** What this process has not appended yet. */
  #newBytes = 0
  #newEntries = 0
  #syncedAt = Number.NEGATIVE_INFINITY
  /** What it has written since. */
  #grown = 0
  /** Bytes that came and went, of all processes. */
  #turnover = 0
  #syncing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: UsageOptions) {
    this.#options = options
  }

  get bytes(): number {
    return Math.max(0, this.#bytes + this.#unreadBytes + this.#newBytes)
  }

  get entries(): number {
    return Math.max(0, this.#entries + this.#unreadEntries + this.#newEntries)
  }

  /** Whether the file has become so long that it is time to count. */
  get isLong(): boolean {
    return this.#read > LONGEST_BYTES
  }

  /** Something was written or removed; the others learn of it soon. */
  add(bytes: number, entries: number): void {
    this.#newBytes += bytes
    this.#newEntries += entries
    this.#grown += Math.max(0, bytes)
    if (this.#timer !== undefined || this.#closed) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.sync()
    }, SHARE_MS)
    this.#timer.unref()
  }

  /** Whether what is known of the others is too old for anything to be written. */
  get isOld(): boolean {
    const { now, maxBytes } = this.#options
    return this.#grown > maxBytes * UNSHARED_PART || now() - this.#syncedAt >= SHARE_MS
  }

  /** Tells the others, and learns from them. Never rejects. */
  sync(): Promise<void> {
    this.#syncing ??= this.#exchange()
      .catch(this.#options.onFailure)
      .finally(() => {
        this.#syncing = undefined
        this.#syncedAt = this.#options.now()
        this.#grown = 0
      })
    return this.#syncing
  }

  /**
   * Counts, and has all others go by that.
   * @param count of everything; undefined when it cannot be told
   * @returns false when so much has changed meanwhile that it should be done again
   */
  async recount(count: () => Promise<Amount | undefined>): Promise<boolean> {
    await this.sync()
    const before = { bytes: this.bytes, entries: this.entries, turnover: this.#turnover, file: this.#file }
    const counted = await count()
    await this.sync()
    // Somebody else has counted meanwhile.
    if (counted === undefined || this.#file !== before.file) return true
    // Of what has changed, half was seen, as nobody knows which.
    const bytes = Math.round(counted.bytes + (this.bytes - before.bytes) / 2)
    const entries = Math.round(counted.entries + (this.entries - before.entries) / 2)
    const turnover = this.#turnover - before.turnover
    await this.#replace(`${bytes} ${entries}\n`)
    await this.sync()
    return turnover <= this.#options.maxBytes * INEXACT_PART
  }

  /** Appends what is left to tell. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#syncing
    if (this.#newBytes !== 0 || this.#newEntries !== 0) await this.sync()
  }

  async #exchange(): Promise<void> {
    const { path, makeFolder } = this.#options
    const [bytes, entries] = [this.#newBytes, this.#newEntries]
    const hasNews = bytes !== 0 || entries !== 0
    let file: FileHandle
    try {
      file = await openOwnFile(path, hasNews ? APPENDED : constants.O_RDONLY)
    } catch (error) {
      if (!isMissing(error)) throw error
      if (!hasNews) {
        this.#begin(undefined, 0, 0, 0)
        return
      }
      await makeFolder()
      file = await openOwnFile(path, APPENDED)
    }
    try {
      if (hasNews) {
        await file.appendFile(`${bytes} ${entries}\n`)
        this.#newBytes -= bytes
        this.#newEntries -= entries
        this.#unreadBytes += bytes
        this.#unreadEntries += entries
      }
      await this.#readNews(file)
      // In a file that somebody has replaced in this moment nobody would read it.
      if (hasNews && !(await this.#isCurrent())) this.add(bytes, entries)
    } finally {
      await file.close()
    }
  }

  async #readNews(file: FileHandle): Promise<void> {
    const status = await file.stat()
    const isSame = identityOf(status) === this.#file && status.size >= this.#read
    let at = isSame ? this.#read : 0
    let bytes = isSame ? this.#bytes : 0
    let entries = isSame ? this.#entries : 0
    while (at < status.size) {
      const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, status.size - at))
      const { bytesRead } = await file.read(buffer, 0, buffer.length, at)
      const end = buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1
      if (end === 0) break
      at += end
      for (const line of buffer.toString('latin1', 0, end - 1).split('\n')) {
        const [lineBytes, lineEntries] = line.split(' ')
        bytes += Number(lineBytes) || 0
        this.#turnover += Math.abs(Number(lineBytes) || 0)
        entries += Number(lineEntries) || 0
      }
    }
    this.#begin(identityOf(status), at, bytes, entries)
  }

  #begin(file: string | undefined, read: number, bytes: number, entries: number): void {
    this.#file = file
    this.#read = read
    this.#bytes = bytes
    this.#entries = entries
    this.#unreadBytes = 0
    this.#unreadEntries = 0
  }

  async #isCurrent(): Promise<boolean> {
    try {
      return identityOf(await stat(this.#options.path)) === this.#file
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }

  async #replace(text: string): Promise<void> {
    const path = this.#options.newPath()
    try {
      const file = await open(path, 'wx', 0o600)
      try {
        await file.writeFile(text)
      } finally {
        await file.close()
      }
      await rename(path, this.#options.path)
    } catch (error) {
      await unlink(path).catch(() => {})
      throw error
    }
  }
}

/** The number alone may be that of a file which is gone. */
function identityOf({ ino, birthtimeMs }: Stats): string {
  return `${ino} ${birthtimeMs}`
}
