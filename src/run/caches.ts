/**
 * The cache of the process. It outlasts the configuration that it began in for as long as the keys of its store stay as
 * they are, so that a reload costs nothing that is stored.
 */
import { isDeepStrictEqual } from 'node:util'
import type { CacheConfig } from '../config/cache.js'
import type { Loaded } from '../config/load.js'
import type { CacheFiles, OpenCache, OpenCacheOptions } from '../upstream/cache/open-cache.js'

/** What a store is made of; where none of it changes, it stays. */
interface StoreKeys extends CacheFiles {
  readonly config: Omit<CacheConfig, 'sharedBy' | 'keyInStatus' | 'rules'>
}

interface UsedCache {
  readonly keys: StoreKeys
  readonly cache: OpenCache
  /** Configurations that it serves. */
  users: number
}

export class Caches {
  readonly #options: OpenCacheOptions
  readonly #used = new Set<UsedCache>()

  constructor(options: OpenCacheOptions) {
    this.#options = options
  }

  /** The cache for a configuration, until it is released; undefined where it has none. */
  async use({
    config: { cache: config },
    files,
    folder,
  }: Pick<Loaded, 'config' | 'files' | 'folder'>): Promise<OpenCache | undefined> {
    if (config === undefined) return undefined
    const { openCache } = await import('../upstream/cache/open-cache.js')
    const { sharedBy: _sharedBy, keyInStatus: _keyInStatus, rules: _rules, ...own } = config
    const keys: StoreKeys = { config: own, files: files.cache, folder }
    let used = [...this.#used].find(other => isDeepStrictEqual(other.keys, keys))
    if (used === undefined) {
      used = { keys, cache: openCache(config, keys, this.#options), users: 0 }
      this.#used.add(used)
    }
    used.users += 1
    return used.cache
  }

  /** One of the configurations that it serves is gone; with the last one it is closed. */
  async release(cache: OpenCache): Promise<void> {
    for (const used of this.#used) {
      if (used.cache !== cache) continue
      used.users -= 1
      if (used.users > 0) continue
      this.#used.delete(used)
      await cache.store.close()
    }
  }
}
