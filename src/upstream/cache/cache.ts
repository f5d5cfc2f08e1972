/**
 * What a cache keeps across reloads of the configuration: its store, and the requests upstream whose responses other clients
 * may share (collapsed forwarding).
 */
import type { CacheKey } from '../../cache/stored-response.js'
import { BoundedMap } from '../../limits/bounded-map.js'
import type { Permit } from '../../policy/permit.js'
import type { CachedRequest, Cancel, Sender, UpstreamEvents, UpstreamRequest } from '../sender.js'
import type { CacheStore, Purge } from './store.js'

/** One request that is processed by the cache. */
export interface CacheRun {
  readonly cache: Cache
  /** Sends what the cache cannot answer. */
  readonly sender: Sender
  readonly request: UpstreamRequest
  readonly asked: CachedRequest
  readonly permit: Permit
  readonly events: UpstreamEvents
  /** Starts over with a look-up, without sharing the response to another request. */
  readonly again: (run: CacheRun) => Cancel
  /** Sends the request to the origin as if nothing were stored. */
  readonly afresh: (run: CacheRun) => Cancel
}

/** A request upstream whose response other clients may share. */
export interface SharedFetch {
  /** @returns undefined if its response cannot answer the request */
  join(run: CacheRun): Cancel | undefined
  /** Its response was invalidated: requests that arrive from now on do not share it. */
  outdated(): void
}

/** The largest number of keys remembered whose last response was not stored: requests for them share no response. */
const MAX_UNSHARED = 10_000
/** How long such a key is remembered, in milliseconds. */
const UNSHARED_MS = 10_000
/** The largest number of invalidated keys remembered: responses requested before an invalidation are not stored. */
const MAX_INVALIDATED = 10_000

export interface CacheOptions {
  readonly store: CacheStore
  /** Responses with more bytes of content are not stored. */
  readonly maxObjectBytes: number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

export class Cache {
  readonly store: CacheStore
  readonly maxObjectBytes: number
  readonly wallClock: () => number
  readonly #fetches = new Map<string, SharedFetch>()
  readonly #unshared = new BoundedMap<string, number>(MAX_UNSHARED)
  /** For each key the value of `#invalidations` at its last invalidation. */
  readonly #invalidated = new BoundedMap<string, number>(MAX_INVALIDATED)
  #invalidations = 0
  /** The value of `#invalidations` at the last purge. */
  #purgedAt = 0

  constructor({ store, maxObjectBytes, wallClock }: CacheOptions) {
    this.store = store
    this.maxObjectBytes = maxObjectBytes
    this.wallClock = wallClock
  }

  /** The request in progress for a key whose response can be shared. */
  fetchOf(key: CacheKey): SharedFetch | undefined {
    return this.#fetches.get(textOf(key))
  }

  /** Whether a new request for a key may share its response: no other one does, and the last response was stored. */
  mayLead(key: CacheKey): boolean {
    const text = textOf(key)
    if (this.#fetches.has(text)) return false
    if (this.#unshared.size === 0) return true
    const until = this.#unshared.get(text)
    if (until === undefined) return true
    if (until > this.wallClock()) return false
    this.#unshared.delete(text)
    return true
  }

  began(key: CacheKey, fetch: SharedFetch): void {
    this.#fetches.set(textOf(key), fetch)
  }

  ended(key: CacheKey, fetch: SharedFetch): void {
    const text = textOf(key)
    if (this.#fetches.get(text) === fetch) this.#fetches.delete(text)
  }

  /** The response for a key could not be shared. */
  unshared(key: CacheKey): void {
    this.#unshared.set(textOf(key), this.wallClock() + UNSHARED_MS)
  }

  /**
   * Removes entries, and stores no response that is in progress, whatever its key.
   * @returns the number of entries removed
   */
  purge(what: Purge): Promise<number> {
    this.#purgedAt = ++this.#invalidations
    for (const fetch of [...this.#fetches.values()]) fetch.outdated()
    return this.store.purge(what)
  }

  /** Removes what is stored under a key, and stores none of its responses in progress (RFC 9111 §4.4). */
  invalidate(key: CacheKey): void {
    const text = textOf(key)
    this.#invalidated.delete(text)
    this.#invalidated.set(text, ++this.#invalidations)
    this.#fetches.get(text)?.outdated()
    this.store.invalidate(key)
  }

  /** The number of invalidations so far, to be passed to `isInvalidated` later. */
  get invalidations(): number {
    return this.#invalidations
  }

  /** Whether a key may have been invalidated since `invalidations` had a value. */
  isInvalidated(key: CacheKey, since: number): boolean {
    if (this.#invalidations === since) return false
    if (this.#purgedAt > since) return true
    return this.#invalidations - since > MAX_INVALIDATED || (this.#invalidated.get(textOf(key)) ?? 0) > since
  }
}

function textOf({ partition, uri }: CacheKey): string {
  return `${partition}\n${uri}`
}
