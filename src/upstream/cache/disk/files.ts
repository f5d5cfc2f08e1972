/** What the cache asks of a file system. Whatever fails is thrown as the system's error. */
import { closeSync, constants, fstatSync, open, read, type Stats } from 'node:fs'
import {
  type FileHandle,
  lstat,
  mkdir,
  open as openHandle,
  readdir,
  rename,
  unlink,
  utimes,
} from 'node:fs/promises'
import { errorCode } from '../../../errors.js'
import { type Descriptors, noDescriptor } from '../../../limits/descriptors.js'
import type { TemporaryFiles } from '../../../origin/store/temporary-files.js'
import { DamagedEntry } from './entry-file.js'

/** Never waits for the other end of a FIFO, and never leaves the directory by a link. */
const CAUTIOUS = constants.O_NONBLOCK | constants.O_NOFOLLOW
/** What the system answers to that: for links, and for sockets and devices without a driver. */
const NOT_REGULAR: ReadonlySet<string | undefined> = new Set(['ELOOP', 'EMLINK', 'ENXIO', 'ENODEV', 'EISDIR'])

/**
 * Opens a file that the cache alone writes. A FIFO, link, socket or device under its name is removed first.
 * @param flags of `open`, as a number
 * @throws the system's error, also where a folder has the name
 */
export async function openOwnFile(path: string, flags: number): Promise<FileHandle> {
  try {
    return await openRegular(path, flags)
  } catch (error) {
    if (!(error instanceof DamagedEntry)) throw error
    await unlink(path)
    return await openRegular(path, flags)
  }
}

async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const file = await openHandle(path, flags | CAUTIOUS, 0o600).catch((error: unknown) => {
    throw regularError(error)
  })
  if (fstatSync(file.fd).isFile()) return file
  await file.close()
  throw notRegular()
}

function notRegular(): DamagedEntry {
  return new DamagedEntry('it is no regular file')
}

function regularError(error: unknown): unknown {
  return NOT_REGULAR.has(errorCode(error)) ? notRegular() : error
}

export interface FileStatus {
  readonly size: number
  /** When it was last used, or written: milliseconds since the epoch. */
  readonly modifiedMs: number
  /** When it was last written, renamed or touched. */
  readonly changedMs: number
}

export interface ReadableFile {
  /** As it was when it was opened. */
  readonly status: FileStatus
  /** @returns fewer bytes where the file ends */
  read(at: number, bytes: number): Promise<Buffer>
  /** To be called once. */
  close(): void
}

export interface WritableFile {
  readonly path: string
  /** All of them, behind what was written before. */
  write(chunks: readonly Uint8Array[]): Promise<void>
  /** To be called once. */
  close(): Promise<void>
}

export interface DiskFiles {
  names(folder: string): Promise<string[]>
  /** @throws DamagedEntry for what is no regular file */
  open(path: string): Promise<ReadableFile>
  /** A new temporary file. */
  create(): Promise<WritableFile>
  status(path: string): Promise<FileStatus>
  touch(path: string, modifiedMs: number): Promise<void>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  /** Makes a folder and those above it, for this user alone; nothing when it is there. */
  makeFolder(path: string): Promise<void>
}

export class SystemFiles implements DiskFiles {
  readonly #temporary: Promise<TemporaryFiles>
  readonly #descriptors: Descriptors

  constructor(temporary: Promise<TemporaryFiles>, descriptors: Descriptors) {
    this.#temporary = temporary
    this.#descriptors = descriptors
  }

  names(folder: string): Promise<string[]> {
    return readdir(folder)
  }

  open(path: string): Promise<ReadableFile> {
    // By callbacks: a look-up opens a file, and a FileHandle costs more than all else about it.
    return new Promise((resolve, reject) => {
      open(path, constants.O_RDONLY | CAUTIOUS, (error, file) => {
        if (error !== null) {
          reject(regularError(error))
          return
        }
        // Neither this nor closing it waits for the disk: what is known of an open file is in memory.
        const status = fstatSync(file)
        const refusal = status.isFile() ? undefined : notRegular()
        const failure = this.#descriptors.isKept(file) ? noDescriptor() : refusal
        if (failure === undefined) {
          resolve(new OpenFile(file, status))
          return
        }
        closeSync(file)
        reject(failure)
      })
    })
  }

  async create(): Promise<WritableFile> {
    const { path, file } = await (await this.#temporary).create()
    return {
      path,
      write: async chunks => {
        const bytes = chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks)
        // Unlike writev, it tells how much is left; and writeFile has a turn of the loop for each half of a MiB.
        for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten
      },
      close: () => file.close(),
    }
  }

  async status(path: string): Promise<FileStatus> {
    return statusOf(await lstat(path))
  }

  touch(path: string, modifiedMs: number): Promise<void> {
    return utimes(path, modifiedMs / 1000, modifiedMs / 1000)
  }

  rename(from: string, to: string): Promise<void> {
    return rename(from, to)
  }

  remove(path: string): Promise<void> {
    return unlink(path)
  }

  async makeFolder(path: string): Promise<void> {
    await mkdir(path, { recursive: true, mode: 0o700 })
  }
}

class OpenFile implements ReadableFile {
  readonly status: FileStatus
  readonly #file: number

  constructor(file: number, stats: Stats) {
    this.#file = file
    this.status = statusOf(stats)
  }

  async read(at: number, bytes: number): Promise<Buffer> {
    // A new buffer each time, as a socket may hold on to it for long.
    const buffer = Buffer.allocUnsafe(bytes)
    let filled = 0
    while (filled < bytes) {
      const count = await this.#read(buffer, filled, at + filled)
      if (count === 0) break
      filled += count
    }
    return buffer.subarray(0, filled)
  }

  close(): void {
    closeSync(this.#file)
  }

  #read(buffer: Buffer, from: number, at: number): Promise<number> {
    return new Promise((resolve, reject) => {
      read(this.#file, buffer, from, buffer.length - from, at, (error, count) => {
        if (error === null) resolve(count)
        else reject(error)
      })
    })
  }
}

function statusOf({ size, mtimeMs, ctimeMs }: Stats): FileStatus {
  return { size, modifiedMs: mtimeMs, changedMs: ctimeMs }
}
