/** Reads what is in a folder. */
import { readdir } from 'node:fs/promises'
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
