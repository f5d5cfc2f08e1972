/**
 * The effects of a response on the store: it is stored if that is allowed (RFC 9111 §3), updates or replaces stored responses
 * (§4.3.5), and invalidates (§4.4).
 */
import { StoredResponse } from '../../cache/freshness.js'
import { invalidatedUris } from '../../cache/invalidation.js'
import { decideStorable, decideUpdate, expectedLength, NOT_STORED, type Times } from '../../cache/storable.js'
import { afterHead } from '../../cache/validation.js'
import { matchesVary } from '../../cache/vary.js'
import { FIELD } from '../../http/field-section.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheRun } from './cache.js'
import type { CacheEntry, EntryWriter, Mark } from './store.js'

/** Why a response is not stored: it may not be, or it cannot be. */
export const UNSTORED = [...NOT_STORED, 'off', 'incomplete', 'too-large', 'store'] as const
export type Unstored = (typeof UNSTORED)[number]

/** How long the origin of one response waits for the store, in milliseconds in all. */
const PATIENCE_MS = 50

export class Storing {
  readonly #run: CacheRun
  readonly #found: readonly CacheEntry[]
  #requestedAt = 0
  /** The number of invalidations when the request was sent. */
  #invalidations = 0
  /** The same for those of other processes. */
  #since: Mark | undefined
  #response: StoredResponse | undefined
  #writer: EntryWriter | undefined
  /** Bytes of content: those received, and the total if known. */
  #bytes = 0
  #length: number | undefined
  /** Whether the origin has to wait because the store is behind. */
  #isBehind = false
  readonly #behindChanged: () => void
  #patienceMs = PATIENCE_MS

  /**
   * @param found the entries under the key
   * @param behindChanged called when `isBehind` has changed
   */
  constructor(run: CacheRun, found: readonly CacheEntry[], behindChanged: () => void) {
    this.#run = run
    this.#found = found
    this.#behindChanged = behindChanged
  }

  /** The request is being sent. */
  sent(): void {
    const { cache } = this.#run
    this.#requestedAt = cache.wallClock()
    this.#markInvalidations()
  }

  /** The response that is or was being stored; undefined if there is none. */
  get response(): StoredResponse | undefined {
    return this.#response
  }

  /** Bytes of content received. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether the origin has to be held back until the store has caught up. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** When the request was sent, and the present as the time of its response. */
  get times(): Times {
    return { requestedAt: this.#requestedAt, respondedAt: this.#run.cache.wallClock() }
  }

  /** Whether this process has invalidated the key since the request was sent. */
  get isOutdated(): boolean {
    const { cache, asked } = this.#run
    return cache.isInvalidated(asked.key, this.#invalidations)
  }

  /** @returns why the response is not stored; undefined if it is */
  begin(head: ReceivedHead): Unstored | undefined {
    const { cache, asked } = this.#run
    if (asked.isOff) return 'off'
    const decision = decideStorable(asked, head, this.times, asked.ttl)
    if (decision.kind === 'refuse') return decision.why
    if (!isDelimited(head)) return 'incomplete'
    if (head.contentLength !== undefined && head.contentLength > cache.maxObjectBytes) return 'too-large'
    return this.create(new StoredResponse(decision.head), expectedLength(head))
  }

  /**
   * @param length bytes of content, if known
   * @returns as `begin`
   */
  create(response: StoredResponse, length: number | undefined): 'store' | undefined {
    const { cache, asked } = this.#run
    this.#length = length
    if (this.isOutdated) return 'store'
    const replaced = this.#found.filter(stored => matchesVary(stored.response, asked.fields))
    this.#writer = cache.store.create(asked.key, response.head, length, replaced, this.#since)
    if (this.#writer === undefined) return 'store'
    this.#response = response
    return undefined
  }

  write(chunk: Uint8Array): void {
    this.#bytes += chunk.length
    this.#writer?.write(chunk)
    const caughtUp = this.#writer?.catchingUp
    if (caughtUp !== undefined && !this.#isBehind && this.#patienceMs > 0) this.#waitFor(caughtUp)
  }

  /** Whether the content is being stored, as far as is known now. */
  get isKept(): boolean {
    return this.#writer?.isGivenUp === false
  }

  /** Bytes of the complete content; Infinity if unknown. */
  get length(): number {
    return this.#length ?? Number.POSITIVE_INFINITY
  }

  /** Bytes of content that are missing; undefined if unknown. */
  get left(): number | undefined {
    return this.#length === undefined ? undefined : this.#length - this.#bytes
  }

  /** @returns as of an EntryWriter */
  end(): CacheEntry | undefined | Promise<CacheEntry | undefined> {
    if (!this.isOutdated && (this.left ?? 0) === 0) return this.#writer?.end()
    this.#writer?.abort()
    return undefined
  }

  abort(): void {
    this.#writer?.abort()
  }

  #waitFor(caughtUp: Promise<void>): void {
    const since = performance.now()
    const goOn = (patienceMs: number) => {
      if (!this.#isBehind) return
      clearTimeout(timer)
      this.#patienceMs = patienceMs
      this.#isBehind = false
      this.#behindChanged()
    }
    const timer = setTimeout(() => goOn(0), this.#patienceMs)
    void caughtUp.then(() => goOn(this.#patienceMs - (performance.now() - since)))
    this.#isBehind = true
    this.#behindChanged()
  }

  /** Invalidates the target of an unsafe request, and what its response names (RFC 9111 §4.4). */
  invalidate({ status, fields }: ReceivedHead): void {
    const { cache, asked } = this.#run
    const uris = invalidatedUris(asked.method, status, asked.key.uri, fields)
    for (const uri of uris) {
      cache.invalidate({ ...asked.key, uri })
      if (asked.plainPartition !== asked.key.partition) {
        cache.invalidate({ partition: asked.plainPartition, uri })
      }
    }
    // The response to this request is newer than the change.
    if (uris.length > 0) this.#markInvalidations()
  }

  #markInvalidations(): void {
    const { cache, asked } = this.#run
    this.#invalidations = cache.invalidations
    this.#since = cache.store.mark(asked.key, this.#found)
  }

  /** Updates a stored response to GET by the response to HEAD (RFC 9111 §4.3.5). */
  updateByHead(head: ReceivedHead, selected: CacheEntry): void {
    const { asked, cache } = this.#run
    const { store } = cache
    const stored = selected.response.head
    const updated = afterHead(stored, head, this.times, selected.length)
    if (updated === stored) return
    const what = updated === 'invalid' ? 'remove' : decideUpdate(asked, new StoredResponse(updated))
    if (what === 'remove') store.remove([selected])
    else if (what === 'update' && updated !== 'invalid') store.update(selected, updated)
  }
}

/**
 * Whether complete content can be distinguished from content that a broken connection cut off. Content that ends with its
 * connection cannot (RFC 9112 §8), and is never stored as complete.
 */
export function isDelimited({ contentLength, fields, status }: ReceivedHead): boolean {
  return contentLength !== undefined || fields.has(FIELD['transfer-encoding']) || status === 204
}
