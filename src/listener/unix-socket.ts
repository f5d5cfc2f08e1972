/**
 * The file of a Unix socket. Before it is bound: one that a process left behind when it died is in the way and is
 * removed, one that somebody still accepts connections on is not touched. When it is closed: what another process has
 * put in its place stays.
 */
import { linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs'
import { lstat, stat, unlink } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { dirname } from 'node:path'
import { errorCode } from '../errors.js'
import type { Bindable } from './passed-sockets.js'

/** Of all that is to be bound; once, as those who bind it after the first find it in use. @throws as removeStaleSocket */
export async function removeStaleSockets(addresses: Iterable<Bindable | undefined>): Promise<void> {
  for (const address of addresses) {
    if (address !== undefined && 'path' in address) await removeStaleSocket(address.path)
  }
}

/**
 * @param path where a socket is to be made
 * @throws Error when something lives there, or lies there that is no socket, or the folder is missing; the system's when it can not be removed
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
  else if (code !== 'ENOENT') throw inUse(`${path} is there already, and can not be connected to (${code})`)
}

/** Of a folder that is missing the system says, when a socket is bound, that it is not permitted. */
async function checkFolder(path: string): Promise<void> {
  try {
    await stat(dirname(path))
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    throw Object.assign(new Error(`${path} can not be made: there is no folder ${dirname(path)}`), {
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
