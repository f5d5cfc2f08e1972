/**
 * The cache as all configurations share it, one after another: its store, and the requests upstream that others may wait
 * for (collapsed forwarding).
 */
import type { CacheKey } from '../../cache/stored-response.js'
import { BoundedMap } from '../../limits/bounded-map.js'
import type { Permit } from '../../policy/permit.js'
import type { CachedRequest, Cancel, Sender, UpstreamEvents, UpstreamRequest } from '../sender.js'
import type { CacheStore, Purge } from './store.js'

/** One request on its way through the cache. */
export interface CacheRun {
  readonly cache: Cache
  /** What is asked where the cache cannot answer. */
  readonly sender: Sender
  readonly request: UpstreamRequest
  readonly asked: CachedRequest
  readonly permit: Permit
  readonly events: UpstreamEvents
  /** Begins anew with what is stored by now, and waits for nobody else's response. */
  readonly again: (run: CacheRun) => Cancel
  /** Asks the origin, as if nothing were stored. */
  readonly afresh: (run: CacheRun) => Cancel
}

/** A request upstream that others may wait for. */
export interface SharedFetch {
  /** @returns undefined where the request cannot be answered with its response */
  join(run: CacheRun): Cancel | undefined
  /** What is on its way has been invalidated: whoever asks from now on gets something newer. */
  outdated(): void
}

/** Keys remembered whose last response was not stored: requests for them do not wait for each other. */
const MAX_UNSHARED = 10_000
/** Milliseconds for which one is remembered. */
const UNSHARED_MS = 10_000
/** Keys remembered that were invalidated last: a response to a request sent before that is not stored. */
const MAX_INVALIDATED = 10_000

export interface CacheOptions {
  readonly store: CacheStore
  /** Bytes of content; larger responses pass by. */
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
  /** The count of invalidations at the last one of each key. */
  readonly #invalidated = new BoundedMap<string, number>(MAX_INVALIDATED)
  #invalidations = 0
  /** The count of invalidations at the last purge. */
  #purgedAt = 0

  constructor({ store, maxObjectBytes, wallClock }: CacheOptions) {
    this.store = store
    this.maxObjectBytes = maxObjectBytes
    this.wallClock = wallClock
  }

  /** The request under way for a key that others may wait for. */
  fetchOf(key: CacheKey): SharedFetch | undefined {
    return this.#fetches.get(textOf(key))
  }

  /** Whether others may wait for a new request for a key: none waits for another one, and the last response was shared. */
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

  /** The response for a key was for one client alone. */
  unshared(key: CacheKey): void {
    this.#unshared.set(textOf(key), this.wallClock() + UNSHARED_MS)
  }

  /**
   * Forgets what is purged, and does not store what is on its way, whatever its key.
   * @returns how many entries were forgotten
   */
  purge(what: Purge): Promise<number> {
    this.#purgedAt = ++this.#invalidations
    for (const fetch of [...this.#fetches.values()]) fetch.outdated()
    return this.store.purge(what)
  }

  /** Forgets what is stored under a key, and does not store what is on its way (RFC 9111 §4.4). */
  invalidate(key: CacheKey): void {
    const text = textOf(key)
    this.#invalidated.delete(text)
    this.#invalidated.set(text, ++this.#invalidations)
    this.#fetches.get(text)?.outdated()
    this.store.invalidate(key)
  }

  /** What `isInvalidated` compares with: how many invalidations there were so far. */
  get invalidations(): number {
    return this.#invalidations
  }

  /** Whether a key may have been invalidated since there were so many invalidations. */
  isInvalidated(key: CacheKey, since: number): boolean {
    if (this.#invalidations === since) return false
    if (this.#purgedAt > since) return true
    return this.#invalidations - since > MAX_INVALIDATED || (this.#invalidated.get(textOf(key)) ?? 0) > since
  }
}

function textOf({ partition, uri }: CacheKey): string {
  return `${partition}\n${uri}`
}
