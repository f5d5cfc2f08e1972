/**
 * Checks of the directory of a cache on disk. The cache writes to it and evicts files from it, so it must not be used for
 * anything else.
 */
import { type Dir, opendirSync, realpathSync } from 'node:fs'
import { sep } from 'node:path'

/** Directories that belong to the system or to all users. A directory below them may be used. */
const OF_ALL: ReadonlySet<string> = new Set([
  ...['/', '/home', '/root', '/run', '/tmp', '/usr', '/usr/local', '/var'],
  ...['/var/cache', '/var/lib', '/var/log', '/var/run', '/var/spool', '/var/tmp', '/dev/shm'],
])
/** Directories of the system that must not be used, nor anything below them. */
const OF_SYSTEM = [
  ...['/bin', '/boot', '/dev', '/etc', '/lib', '/lib32', '/lib64', '/libx32', '/proc', '/sbin', '/sys'],
  ...[
    '/usr/bin',
    '/usr/include',
    '/usr/lib',
    '/usr/lib32',
    '/usr/lib64',
    '/usr/libexec',
    '/usr/sbin',
    '/usr/share',
  ],
]
/** Memory that programs may use as a file system. */
const SHARED_MEMORY = '/dev/shm/'

/** Names that the cache creates in its directory, and those that file systems and repositories have in an empty one. */
const OWN_NAME = /^(?:[0-9a-f]{3}|tmp|usage(?:-.*)?|sweeping|invalidated(?:-.*)?)$/
const NAMES_OF_EMPTY: ReadonlySet<string> = new Set([
  'lost+found',
  '.snapshot',
  '.gitkeep',
  '.gitignore',
  '.keep',
])
/** The most names that are read, and the most foreign names in a message. */
const MOST_NAMES = 10_000
const TOLD_NAMES = 3

/**
 * Why a directory cannot be used for the cache.
 * @param path absolute
 * @returns a clause; undefined if it can be used
 */
export function cacheDirectoryFault(path: string): string | undefined {
  const place = realPath(path)
  const isOfSystem = OF_SYSTEM.some(folder => place === folder || place.startsWith(folder + sep))
  if (!OF_ALL.has(place) && (!isOfSystem || place.startsWith(SHARED_MEMORY))) return undefined
  return `is a directory of the system${place === path ? '' : ` (${place})`}; give the cache one of its own`
}

/**
 * Files in the directory of the cache that the cache has not created.
 * @param path absolute
 * @returns a clause; undefined if there are none
 */
export function foreignFilesIn(path: string): string | undefined {
  const foreign: string[] = []
  let folder: Dir
  try {
    folder = opendirSync(path)
  } catch {
    // It does not exist yet, or cannot be read: then it cannot be written either, which the log reports.
    return undefined
  }
  try {
    for (let seen = 0; seen < MOST_NAMES && foreign.length < TOLD_NAMES; seen++) {
      const entry = folder.readSync()
      if (entry === null) break
      if (!OWN_NAME.test(entry.name) && !NAMES_OF_EMPTY.has(entry.name)) foreign.push(entry.name)
    }
  } finally {
    folder.closeSync()
  }
  if (foreign.length === 0) return undefined
  const names = foreign.sort().map(name => JSON.stringify(name))
  return `holds files that are not the cache's (${names.join(', ')}); give the cache a directory of its own`
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
