/**
 * Reads directories of the store, which may be missing, and creates them durably before a write is acknowledged.
 */
import type { Dir } from 'node:fs'
import { lstat, mkdir, open, opendir, readdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '../../errors.js'
import { isMissing } from './failures.js'

/** The names in a folder, in no order; empty if there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/**
 * Opens a folder that may be large, to be read a few entries at a time.
 * @returns undefined if there is no such folder
 */
export async function openFolder(folder: string, entriesAtOnce: number): Promise<Dir | undefined> {
  try {
    return await opendir(folder, { bufferSize: entriesAtOnce })
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/**
 * Makes the names in a directory durable. This is done before a client is told that a write has succeeded.
 */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** How often other processes may remove a directory while it is needed before that becomes an error. */
const MAX_TRIES = 100

/**
 * Creates a directory and its missing parents, durably and accessible only to this user.
 * @returns whether it was missing
 * @throws the system's error; ENOENT for a symbolic link without a target, too
 */
export async function ensureDirectory(path: string): Promise<boolean> {
  for (let tries = 0; ; tries++) {
    try {
      await mkdir(path, 0o700)
      break
    } catch (error) {
      const code = errorCode(error)
      if (code === 'EEXIST') {
        if (await isThere(path)) return false
      } else if (code !== 'ENOENT' || dirname(path) === path) throw error
      else await ensureDirectory(dirname(path))
      if (tries === MAX_TRIES) throw error
    }
  }
  await syncDirectory(dirname(path))
  return true
}

/** Whether the path, which existed when mkdir was called, still exists. @throws for a link without a target */
async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    const isLink = await lstat(path).then(
      status => status.isSymbolicLink(),
      () => false,
    )
    if (isLink || errorCode(error) !== 'ENOENT') throw error
    return false
  }
}

/**
 * Does work in a directory; if the directory is missing, creates it and does the work again.
 * @param onMade called when the directory was created
 */
export async function inDirectory<T>(
  path: string,
  work: () => Promise<T>,
  onMade: () => void = () => {},
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      // Another writer may remove the empty directory before the work is done.
      if (errorCode(error) !== 'ENOENT' || tries === MAX_TRIES) throw error
      if (await ensureDirectory(path)) onMade()
    }
  }
}
