/**
 * Directories of the store: read where they may be missing, and made durable before a write is acknowledged.
 */
import type { Dir } from 'node:fs'
import { lstat, mkdir, open, opendir, readdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '../../errors.js'
import { isMissing } from './failures.js'

/** In no order; nothing when there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/**
 * To be read a few entries at a time, for folders that may be large.
 * @returns undefined when there is no such folder
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
 * What has to be on the disk before anybody is told: directories, and the names in them.
 *
 * Makes the names in a directory durable.
 */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Directories may be taken away by others as often as that before it is taken for a fault. */
const MOST_TRIES = 100

/**
 * Creates a directory and those above it that are missing, durably and for this user alone.
 * @returns whether it was missing
 * @throws the system's error, ENOENT too for a symbolic link that leads nowhere
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
      if (tries === MOST_TRIES) throw error
    }
  }
  await syncDirectory(dirname(path))
  return true
}

/** Whether what stood in the way of a directory is still there. @throws for a link whose target is not */
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
 * Does the work, and when a directory for it is missing creates that and does it again.
 * @param onMade told when it has created it
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
      // Another writer may remove an empty directory between the two.
      if (errorCode(error) !== 'ENOENT' || tries === MOST_TRIES) throw error
      if (await ensureDirectory(path)) onMade()
    }
  }
}
