/**
 * The latest invalidations (RFC 9111 §4.4), shared by all processes that use the directory: a response that was requested
 * before an invalidation is not stored after it, whichever process invalidated.
 *
 * Each invalidation appends one line to a file, `key process`, and removes entries only then. The length of the file is
 * the clock: it is noted when a request is sent, and no line of another process for the same key may have been appended
 * since when the entry is in its place. A process knows its own invalidations without the file.
 *
 * A file that has grown too long is replaced by an empty one. What was requested before that is not stored.
 */
import { constants, fstatSync } from 'node:fs'
import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import { type Descriptors, noDescriptor } from '../../../limits/descriptors.js'
import { isMissing } from '../../../origin/store/failures.js'
import { openOwnFile } from './files.js'
import type { Place } from './layout.js'

/** Digits of the digests of URI and partition, and of the process id; a collision only prevents that a response is stored. */
const URI_DIGITS = 16
const PARTITION_DIGITS = 8
const PROCESS_DIGITS = 8
const KEY_DIGITS = URI_DIGITS + PARTITION_DIGITS
const EVERY_KEY = '*'.repeat(KEY_DIGITS)
/** The file is replaced when it is longer: after some 7,500 invalidations. */
const MAX_BYTES = 256 * 1024
/** The first line of a file that replaced another one. */
const REPLACED = '-\n'
/** The largest number of bytes that wait to be appended; beyond it every key counts as invalidated. */
const MAX_PENDING_BYTES = 64 * 1024
const APPENDED = constants.O_RDWR | constants.O_APPEND

export interface InvalidationsOptions {
  /** The file. */
  readonly path: string
  /** @returns a name for a file that will replace it, in the same file system */
  readonly newPath: () => string
  readonly makeFolder: () => Promise<void>
  /** Differs from that of every other process that uses the directory. */
  readonly processId: string
  readonly descriptors: Descriptors
}

/** The length of the file when a request was sent. */
export class InvalidationMark {
  /** Undefined if it was not open yet, or did not exist. */
  readonly file: FileHandle | undefined
  readonly length: number

  constructor(file: FileHandle | undefined, length: number) {
    this.file = file
    this.length = length
  }
}

export class SharedInvalidations {
  readonly #options: InvalidationsOptions
  readonly #process: string
  #file: FileHandle | undefined
  #opening: Promise<unknown> = Promise.resolve()
  #pending = ''
  #appending: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(options: InvalidationsOptions) {
    this.#options = options
    const id = options.processId.replace(/[^0-9a-z]/gi, '')
    this.#process = id.slice(0, PROCESS_DIGITS).padEnd(PROCESS_DIGITS, '0')
  }

  /** Opens the file if it exists, so that marks can be taken. */
  async open(): Promise<void> {
    await this.#current(false)
  }

  /** Takes a mark, without waiting for the disk: the length of an open file is in memory. */
  mark(): InvalidationMark {
    const file = this.#file
    if (file === undefined) return new InvalidationMark(undefined, 0)
    const { size, nlink } = fstatSync(file.fd)
    return nlink === 0 ? new InvalidationMark(undefined, 0) : new InvalidationMark(file, size)
  }

  /**
   * Resolves when the other processes can see that a place was invalidated.
   * @param place undefined for every place
   * @throws the system's error
   */
  add(place: Place | undefined): Promise<void> {
    this.#pending += `${place === undefined ? EVERY_KEY : keyOf(place)} ${this.#process}\n`
    if (this.#pending.length > MAX_PENDING_BYTES) this.#pending = `${EVERY_KEY} ${this.#process}\n`
    // Lines that are added during an append are written by the next one.
    const appending = this.#appending.then(() => this.#append())
    this.#appending = appending.catch(() => {})
    return appending
  }

  /**
   * Whether another process has invalidated a place since a mark was taken; true where that cannot be told.
   * @throws the system's error
   */
  async hasSince({ file: marked, length }: InvalidationMark, place: Place): Promise<boolean> {
    const file = await this.#current(false)
    // Without a file nothing was invalidated, unless the directory was removed.
    if (file === undefined) return marked !== undefined
    if (marked !== undefined && marked !== file) return true
    const from = marked === undefined ? 0 : length
    const { size } = fstatSync(file.fd)
    if (size === from) return false
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(size - from), 0, size - from, from)
    const text = buffer.toString('latin1', 0, bytesRead)
    if (marked === undefined && text.startsWith(REPLACED)) return true
    return this.#isOfOthers(text, keyOf(place)) || this.#isOfOthers(text, EVERY_KEY)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#appending
    await this.#opening
    await this.#file?.close()
    this.#file = undefined
  }

  #isOfOthers(text: string, key: string): boolean {
    for (let at = text.indexOf(key); at !== -1; at = text.indexOf(key, at + key.length)) {
      if (!text.startsWith(this.#process, at + key.length + 1)) return true
    }
    return false
  }

  async #append(): Promise<void> {
    while (this.#pending !== '' && !this.#isClosed) {
      const file = await this.#current(true)
      if (file === undefined) return
      const lines = this.#pending
      this.#pending = ''
      let isAppended = false
      try {
        await file.appendFile(lines)
        // No process reads a file that has just been replaced.
        isAppended = !isReplaced(file)
      } finally {
        // After a failure the lines are appended with the next ones.
        if (!isAppended) this.#pending = lines + this.#pending
      }
      if (fstatSync(file.fd).size > MAX_BYTES) await this.#replace()
    }
  }

  /** @returns the file, open; undefined if there is none */
  #current(isMade: boolean): Promise<FileHandle | undefined> {
    const file = this.#file
    if (file !== undefined && !isReplaced(file)) return Promise.resolve(file)
    // Opened one after another: of two files opened at the same time only one would be closed.
    const opening = this.#opening.then(() => this.#reopen(isMade))
    this.#opening = opening.catch(() => {})
    return opening
  }

  async #reopen(isMade: boolean): Promise<FileHandle | undefined> {
    const before = this.#file
    if (before !== undefined) {
      if (!isReplaced(before)) return before
      this.#file = undefined
      await before.close()
    }
    if (this.#isClosed) return undefined
    this.#file = await this.#open(isMade)
    return this.#file
  }

  async #open(isMade: boolean): Promise<FileHandle | undefined> {
    const { path, makeFolder, descriptors } = this.#options
    let file: FileHandle
    try {
      file = await openOwnFile(path, isMade ? APPENDED | constants.O_CREAT : APPENDED)
    } catch (error) {
      if (!isMissing(error)) throw error
      if (!isMade) return undefined
      await makeFolder()
      file = await openOwnFile(path, APPENDED | constants.O_CREAT)
    }
    if (!descriptors.isKept(file.fd)) return file
    await file.close()
    throw noDescriptor()
  }

  async #replace(): Promise<void> {
    const path = this.#options.newPath()
    try {
      const file = await open(path, 'wx', 0o600)
      await file.writeFile(REPLACED).finally(() => file.close())
      await rename(path, this.#options.path)
    } catch (error) {
      await unlink(path).catch(() => {})
      throw error
    }
  }
}

function keyOf({ prefix }: Place): string {
  const [uri = '', partition = ''] = prefix.split('-')
  return uri.slice(0, URI_DIGITS) + partition.slice(0, PARTITION_DIGITS)
}

function isReplaced({ fd }: FileHandle): boolean {
  return fstatSync(fd).nlink === 0
}
