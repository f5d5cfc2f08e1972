/**
 * Directories that stores and the cache must not share: each would count, list or evict the files of the other.
 */
import { realpathSync } from 'node:fs'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { DEFAULT_CACHE_DIRECTORY } from './cache.js'
import { DEFAULT_DIRECTORY } from './origins.js'
import { type Path, quoteKey } from './problem.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

/** @param folder where relative paths start */
export function checkDirectories(root: Located, folder: string): Fault[] {
  return [...sharedDirectories(root, folder), ...directoryOfCache(root, folder)]
}

/**
 * Stores that share a directory: each counts only its own content, so two in one directory would take twice max_total.
 * Symbolic links are resolved before the comparison.
 */
function sharedDirectories(root: Located, folder: string): Fault[] {
  const first = new Map<string, string | number>()
  const origins = [...(valueAt(root, 'origins')?.children ?? [])]
  return origins.flatMap(([index, node]) => {
    const store = node.children.get('store')
    const directory = store?.children.get('directory')
    const text = directory === undefined ? DEFAULT_DIRECTORY : directory.value
    if (store === undefined || typeof text !== 'string') return []
    const place = realPathOf(resolve(folder, text))
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

/**
 * A cache directory within that of a store, or around it: the store would list the files of the cache, or the cache evict
 * those of the store.
 */
function directoryOfCache(root: Located, folder: string): Fault[] {
  const cache = valueAt(root, 'cache')
  const kind = cache?.children.get('store')?.value ?? cache?.value
  if (cache === undefined || kind !== 'disk') return []
  const directory = cache.children.get('directory')
  const text = directory === undefined ? DEFAULT_CACHE_DIRECTORY : directory.value
  if (typeof text !== 'string') return []
  const place = realPathOf(resolve(folder, text))
  return [...(valueAt(root, 'origins')?.children ?? [])].flatMap(([index, node]) => {
    const store = node.children.get('store')
    const of = store?.children.get('directory')
    const other = of === undefined ? DEFAULT_DIRECTORY : of.value
    if (store === undefined || typeof other !== 'string') return []
    if (
      !isWithin(place, realPathOf(resolve(folder, other))) &&
      !isWithin(realPathOf(resolve(folder, other)), place)
    ) {
      return []
    }
    const path: Path = ['cache', ...(directory === undefined ? [] : ['directory'])]
    const message = `${quoteKey(text)} and ${quoteKey(other)}, the directory of origins[${index}], lie within each other; keep them apart`
    return [{ offset: directory?.start ?? cache.key, path, message }]
  })
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)
}

/** The path without symbolic links; of a path that does not exist yet, its existing part is resolved. */
export function realPathOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const above = dirname(path)
    return above === path ? path : join(realPathOf(above), basename(path))
  }
}
