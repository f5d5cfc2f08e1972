/**
 * The file of a Unix socket. Before it is bound: one that a process left behind when it died is in the way and is
 * removed, one that somebody still accepts connections on is not touched. When it is closed: what another process has
 * put in its place stays, also when the process ends without closing it.
 */
import { errorCode } from '../errors.js'
import { linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs'
import { lstat, stat, unlink } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { dirname } from 'node:path'

/**
 * @param path where a socket is to be made
 * @throws Error when somebody listens there, or what is there is no socket, or the folder is missing; the system's when it cannot be removed
 */
export async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) throw new Error(`${path} is there already, and is no socket`)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    await checkFolder(path)
    return
  }
  const code = await probe(path)
  if (code === 'ECONNREFUSED') await unlink(path)
  else if (code === undefined || code === 'EAGAIN')
    throw inUse(`${path} is in use: another process listens on it`)
  else if (code !== 'ENOENT') throw inUse(`${path} is there already, and cannot be connected to (${code})`)
}

/** Of a folder that is missing the system says, when a socket is bound, that it is not permitted. */
async function checkFolder(path: string): Promise<void> {
  try {
    await stat(dirname(path))
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    throw Object.assign(new Error(`${path} cannot be made: there is no folder ${dirname(path)}`), {
      code: 'ENOENT',
    })
  }
}

/**
 * @param own the socket that was made at the path
 * @param remove removes at once whatever is there
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
  // Unlike a rename it fails when something is there again.
  linkSync(aside, path)
  unlinkSync(aside)
}

function inUse(message: string): Error {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}

/** The system's code for why nobody could be connected to; undefined when somebody was. */
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

/** One that comes to its path later may have its number, but is younger. */
interface SocketFile {
  readonly path: string
  readonly dev: bigint
  readonly ino: bigint
  readonly birthtimeNs: bigint
}

/** The files of the Unix sockets that this process makes: one that ends without closing them removes them. */
export class SocketFiles {
  readonly #paths: readonly string[]
  readonly #before: readonly SocketFile[]
  /** Undefined until all are made. */
  #made: readonly SocketFile[] | undefined

  /** @param paths where they are going to be; what lies there by now is not ours */
  constructor(paths: readonly string[]) {
    this.#paths = paths
    this.#before = findAll(paths)
  }

  /** All are made: one that comes to a path from here on is not ours. */
  made(): void {
    this.#made = this.#find()
  }

  /** All are closed, which has removed them. */
  closed(): void {
    this.#made = []
  }

  /** For the end of the process, which stops for nothing. */
  remove(): void {
    for (const file of this.#made ?? this.#find()) {
      if (!isSame(file, find(file.path))) continue
      try {
        unlinkSync(file.path)
      } catch {
        // It is in the way of nobody: the next to listen there removes it.
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

/** @returns undefined where there is none, or none to be seen */
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
