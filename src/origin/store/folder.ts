/** Reads what is in a folder. */
import type { Dir } from 'node:fs'
import { opendir, readdir } from 'node:fs/promises'
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
