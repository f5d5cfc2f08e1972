/** What has to be on the disk before anybody is told: directories, and the names in them. */
import { mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from './failures.js'

/** Makes the names in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Creates a directory and those above it that are missing, durably and for this user alone. */
export async function ensureDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, 0o700)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST') return
    if (code !== 'ENOENT' || dirname(path) === path) throw error
    await ensureDirectory(dirname(path))
    await ensureDirectory(path)
    return
  }
  await syncDirectory(dirname(path))
}

/** Does the work, and when a directory for it is missing creates that and does it again. */
export async function inDirectory<T>(path: string, work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      // Another writer may remove an empty directory between the two.
      if (errorCode(error) !== 'ENOENT' || tries === 100) throw error
      await ensureDirectory(path)
    }
  }
}
