/**
 * The caches of the process. A cache remains open across reloads as long as the keys of its store do not change, so
 * that a reload loses no stored responses.
 */
import { isDeepStrictEqual } from 'node:util'
import type { CacheConfig } from '../config/cache.js'
import type { Loaded } from '../config/load.js'
import type { CacheFiles, OpenCache, OpenCacheOptions } from '../upstream/cache/open-cache.js'

/** The options of a store; it is reused while none of them changes. */
interface StoreKeys extends CacheFiles {
  readonly config: Omit<CacheConfig, 'sharedBy' | 'keyInStatus' | 'rules'>
}

interface UsedCache {
  readonly keys: StoreKeys
  readonly cache: OpenCache
  /** The number of configurations that use it. */
  users: number
}

export class Caches {
  readonly #options: OpenCacheOptions
  readonly #used = new Set<UsedCache>()

  constructor(options: OpenCacheOptions) {
    this.#options = options
  }

  /** The cache for a configuration, until it is released; undefined if the configuration has none. */
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

  /** Called when a configuration that uses the cache has ended; closes it after the last one. */
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
