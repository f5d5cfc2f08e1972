/**
 * Stores that share a directory: each counts what it holds by itself, so two in one place would let in twice of
 * max_total. Places are compared as the disk has them, because a link makes one place of two names.
 */
import { realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { valueAt } from './issues.js'
import { DEFAULT_DIRECTORY } from './origins.js'
import { type Path, quoteKey } from './problem.js'
import type { Fault, Located } from './yaml-tree.js'

/** @param folder what relative paths start from */
export function checkStoreDirectories(root: Located, folder: string): Fault[] {
  const first = new Map<string, string | number>()
  const origins = [...(valueAt(root, 'origins')?.children ?? [])]
  return origins.flatMap(([index, node]) => {
    const store = node.children.get('store')
    const directory = store?.children.get('directory')
    const text = directory === undefined ? DEFAULT_DIRECTORY : directory.value
    if (store === undefined || typeof text !== 'string') return []
    const place = placeOf(resolve(folder, text))
    const other = first.get(place)
    if (other === undefined) {
      first.set(place, index)
      return []
    }
    const path: Path = ['origins', index, 'store', 'directory']
    const message = `${quoteKey(text)} is the directory of origins[${other}] already; give each store one of its own`
    return [{ offset: directory?.start ?? store.key, path, message }]
  })
}

/** Where a path leads; of one that is not there yet, where what there is of it does. */
function placeOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const above = dirname(path)
    return above === path ? path : join(placeOf(above), basename(path))
  }
}
