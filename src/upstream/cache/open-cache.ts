/** Opens the cache that `cache` configures, with its store. Imported only if there is one, which is rare. */
import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { currentAgeMs } from '../../cache/age.js'
import { type CacheConfig, redisUrlWithCredentials } from '../../config/cache.js'
import type { Loaded } from '../../config/load.js'
import type { Descriptors } from '../../limits/descriptors.js'
import type { Sender } from '../sender.js'
import { Cache } from './cache.js'
import { CachingSender } from './caching-sender.js'
import { DiskStore } from './disk-store.js'
import { MemoryStore } from './memory-store.js'
import { RedisStore } from './redis-store.js'
import type { CacheStore, Purge } from './store.js'
import { StoreFailures } from './store-failures.js'

export interface OpenCache {
  readonly store: Pick<CacheStore, 'stats' | 'close'>
  /** @returns the number of entries removed */
  purge(what: Purge): Promise<number>
  /** Wraps a sender with the cache. */
  around(sender: Sender): Sender
}

export interface OpenCacheOptions {
  readonly logger: Logger
  readonly descriptors: Descriptors
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

/** The folder that relative paths start from, and the content of the files that the keys name. */
export interface CacheFiles {
  readonly folder: string
  readonly files: Loaded['files']['cache']
}

export function openCache(config: CacheConfig, files: CacheFiles, options: OpenCacheOptions): OpenCache {
  const store = openStore(config, files, options)
  const cache = new Cache({ store, maxObjectBytes: config.maxObjectBytes, wallClock: options.wallClock })
  return {
    store,
    purge: what => cache.purge(what),
    around: sender => new CachingSender(sender, cache),
  }
}

function openStore(
  config: CacheConfig,
  { folder, files }: CacheFiles,
  options: OpenCacheOptions,
): CacheStore {
  const { logger, descriptors, now, wallClock } = options
  const { maxObjectBytes } = config
  const failures = new StoreFailures({
    log: event => (event.event === 'cache_store_up' ? logger.info(event) : logger.error(event)),
    now,
  })
  switch (config.store) {
    case 'memory':
      return new MemoryStore({ maxBytes: config.sizeBytes, maxObjectBytes })
    case 'disk':
      return new DiskStore({
        directory: resolve(folder, config.directory),
        maxBytes: config.sizeBytes,
        maxObjectBytes,
        failures,
        now,
        wallClock,
        randomId: () => randomBytes(16).toString('hex'),
        descriptors,
      })
    case 'redis':
      return new RedisStore({
        urls: config.urls.map(url => redisUrlWithCredentials(url, config.user, files?.password)),
        ca: files?.ca,
        failures,
        freshForMs: (response, at) => response.lifetimeMs - currentAgeMs(response, at),
        wallClock,
      })
  }
}
