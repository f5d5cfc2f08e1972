/**
 * The file of a Unix socket before it is bound: one that a process left behind when it died is in the way and is
 * removed, one that somebody still accepts connections on is not touched.
 */
import { lstat, unlink } from 'node:fs/promises'
import { createConnection } from 'node:net'

/**
 * @param path where a socket is to be made
 * @throws Error when something lives there, or lies there that is no socket; the system's when it can not be removed
 */
export async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) throw new Error(`${path} is there already, and is no socket`)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return
    throw error
  }
  const code = await probe(path)
  if (code === 'ECONNREFUSED') await unlink(path)
  else if (code === undefined || code === 'EAGAIN')
    throw inUse(`${path} is in use: another process listens on it`)
  else if (code !== 'ENOENT') throw inUse(`${path} is there already, and can not be connected to (${code})`)
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
    socket.on('error', error => resolve(codeOf(error)))
  })
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}
