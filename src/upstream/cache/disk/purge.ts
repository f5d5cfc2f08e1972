/** Purges that walk through all of the directory: everything, and all URIs of a host. */
import { isPurged } from '../purged.js'
import type { Purge } from '../store.js'
import type { Entries } from './entries.js'
import { DamagedEntry } from './entry-file.js'
import { entriesAmong } from './layout.js'

/**
 * @returns how many entries were removed
 * @throws the system's error
 */
export async function purgeAll(entries: Entries): Promise<number> {
  let count = 0
  for (const folder of await entries.folders()) count += await entries.removeAll({ folder, prefix: '' })
  return count
}

/**
 * Reads the head of every entry, which alone tells its host.
 * @param onDamaged an entry that cannot be read is removed, and not counted
 * @returns how many entries of the host were removed
 * @throws the system's error
 */
export async function purgeHost(
  entries: Entries,
  what: Purge,
  onDamaged: (error: DamagedEntry) => void,
): Promise<number> {
  let count = 0
  for (const folder of await entries.folders()) {
    for (const id of entriesAmong(await entries.namesIn(folder)).heads) {
      try {
        const found = await entries.readOne(folder, id)
        if (found === undefined || !isPurged(found.entry.key.uri, what)) continue
        if (await entries.remove(folder, id)) count++
      } catch (error) {
        if (!(error instanceof DamagedEntry)) throw error
        onDamaged(error)
        await entries.remove(folder, id)
      }
    }
  }
  return count
}
