/**
 * The files of Unix sockets. Before one is bound, a file that a dead process has left behind is removed, and one on
 * which a process still accepts connections is not touched. When it is closed, a file that another process has created
 * in its place is kept, also when the process ends without closing it.
 */
import { errorCode } from '../errors.js'
import { linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs'
import { lstat, stat, unlink } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { dirname } from 'node:path'

/**
 * @param path where a socket is to be created
 * @throws Error when another process listens there, the file is not a socket, or the folder is missing; the system's
 *   error when it cannot be removed
 */
export async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) throw new Error(`${path} already exists and is not a socket`)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    await checkFolder(path)
    return
  }
  const code = await probe(path)
  if (code === 'ECONNREFUSED') await unlink(path)
  else if (code === undefined || code === 'EAGAIN')
    throw inUse(`${path} is in use: another process listens on it`)
  else if (code !== 'ENOENT') throw inUse(`${path} already exists, and connecting to it fails (${code})`)
}

/** Binding a socket in a missing folder fails with EACCES, which would be misleading. */
async function checkFolder(path: string): Promise<void> {
  try {
    await stat(dirname(path))
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    throw Object.assign(new Error(`${path} cannot be created: the folder ${dirname(path)} does not exist`), {
      code: 'ENOENT',
    })
  }
}

/**
 * Keeps the file at a path, if another process has replaced it, while a server is closed.
 * @param own the socket that this process has created at the path
 * @param remove synchronously removes any file at the path
 */
export function keepReplacement(
  path: string,
  own: { readonly dev: number; readonly ino: number },
  remove: () => void,
): void {
  const there = lstatSync(path, { throwIfNoEntry: false })
  if (there === undefined || (there.dev === own.dev && there.ino === own.ino)) {
    remove()
    return
  }
  const aside = `${path}.${own.ino}`
  renameSync(path, aside)
  remove()
  // Unlike rename, link fails if another file exists at the path again.
  linkSync(aside, path)
  unlinkSync(aside)
}

function inUse(message: string): Error {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}

/** Tries to connect. Returns the system's error code, or undefined when the connection was established. */
function probe(path: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const socket = createConnection({ path })
    socket.on('connect', () => {
      socket.destroy()
      resolve(undefined)
    })
    socket.on('error', error => resolve(errorCode(error)))
  })
}

/** Identifies a file. A later file may have the same inode number, but a later time of birth. */
interface SocketFile {
  readonly path: string
  readonly dev: bigint
  readonly ino: bigint
  readonly birthtimeNs: bigint
}

/** The Unix sockets that this process creates, to remove their files when it ends without closing them. */
export class SocketFiles {
  readonly #paths: readonly string[]
  readonly #before: readonly SocketFile[]
  /** Undefined until all are created. */
  #created: readonly SocketFile[] | undefined

  /** @param paths where the sockets will be created; files that already exist there are not removed */
  constructor(paths: readonly string[]) {
    this.#paths = paths
    this.#before = findAll(paths)
  }

  /** All are created: files that appear at the paths later are not removed. */
  created(): void {
    this.#created = this.#find()
  }

  /** All sockets are closed, which has removed their files. */
  closed(): void {
    this.#created = []
  }

  /** Removes the files when the process exits; synchronous, and never throws. */
  remove(): void {
    for (const file of this.#created ?? this.#find()) {
      if (!isSame(file, find(file.path))) continue
      try {
        unlinkSync(file.path)
      } catch {
        // The next process that listens there removes it.
      }
    }
  }

  #find(): readonly SocketFile[] {
    return findAll(this.#paths).filter(file => !this.#before.some(before => isSame(before, file)))
  }
}

function findAll(paths: readonly string[]): SocketFile[] {
  return paths.flatMap(path => find(path) ?? [])
}

/** @returns undefined when there is no socket at the path, or it cannot be examined */
function find(path: string): SocketFile | undefined {
  try {
    const found = lstatSync(path, { bigint: true })
    if (!found.isSocket()) return undefined
    return { path, dev: found.dev, ino: found.ino, birthtimeNs: found.birthtimeNs }
  } catch {
    return undefined
  }
}

function isSame(a: SocketFile, b: SocketFile | undefined): boolean {
  return a.path === b?.path && a.dev === b.dev && a.ino === b.ino && a.birthtimeNs === b.birthtimeNs
}
