/**
 * What a response does to the store: it is stored where that is allowed (RFC 9111 §3), it refreshes or replaces what is
 * there (§4.3.5), it invalidates (§4.4).
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

/** Why a response is not stored: as it is not storable, or as it cannot be. */
export const UNSTORED = [...NOT_STORED, 'off', 'incomplete', 'too-large', 'store'] as const
export type Unstored = (typeof UNSTORED)[number]

/** Milliseconds in all for which the content of a response waits for the store. */
const PATIENCE_MS = 50

export class Storing {
  readonly #run: CacheRun
  readonly #found: readonly CacheEntry[]
  #requestedAt = 0
  /** How many invalidations there were when the request was sent. */
  #invalidations = 0
  /** Likewise of those in other processes. */
  #since: Mark | undefined
  #response: StoredResponse | undefined
  #writer: EntryWriter | undefined
  /** Of content: received, and to come in all where that is known. */
  #bytes = 0
  #length: number | undefined
  /** Whether content is to wait, as the store is behind. */
  #isBehind = false
  readonly #behindChanged: () => void
  #patienceMs = PATIENCE_MS

  /**
   * @param found what is stored under the key
   * @param behindChanged `isBehind` has changed
   */
  constructor(run: CacheRun, found: readonly CacheEntry[], behindChanged: () => void) {
    this.#run = run
    this.#found = found
    this.#behindChanged = behindChanged
  }

  /** The request goes out. */
  sent(): void {
    const { cache } = this.#run
    this.#requestedAt = cache.wallClock()
    this.#markInvalidations()
  }

  /** What is being stored, or was; undefined where nothing is. */
  get response(): StoredResponse | undefined {
    return this.#response
  }

  /** Bytes of content received. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether the origin is to be held back, so that the store can keep all of a large content. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** When the request was sent, and that its response comes now. */
  get times(): Times {
    return { requestedAt: this.#requestedAt, respondedAt: this.#run.cache.wallClock() }
  }

  /** Whether what is stored under its key was invalidated since the request was sent. */
  get isOutdated(): boolean {
    const { cache, asked } = this.#run
    return cache.isInvalidated(asked.key, this.#invalidations)
  }

  /** @returns why the response is not stored; undefined when it is */
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
   * @param length bytes of content, where that is known
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

  /** Whether the content is being stored, as far as is known. */
  get isKept(): boolean {
    return this.#writer?.isGivenUp === false
  }

  /** Bytes of content in all; Infinity where that is not known. */
  get length(): number {
    return this.#length ?? Number.POSITIVE_INFINITY
  }

  /** Bytes of content that are still to come; undefined where that is not known. */
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

  /** A change of the target, and of what its response names, leaves nothing stored of them (RFC 9111 §4.4). */
  invalidate({ status, fields }: ReceivedHead): void {
    const { cache, asked } = this.#run
    const uris = invalidatedUris(asked.method, status, asked.key.uri, fields)
    for (const uri of uris) {
      cache.invalidate({ ...asked.key, uri })
      if (asked.plainPartition !== asked.key.partition) {
        cache.invalidate({ partition: asked.plainPartition, uri })
      }
    }
    // Its own response is what holds from now on.
    if (uris.length > 0) this.#markInvalidations()
  }

  #markInvalidations(): void {
    const { cache, asked } = this.#run
    this.#invalidations = cache.invalidations
    this.#since = cache.store.mark(asked.key, this.#found)
  }

  /** The response to HEAD says what the one to GET would (RFC 9111 §4.3.5). */
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
 * Whether the end of the content can be told from a connection that broke: content that ends with its connection cannot
 * (RFC 9112 §8), and is never stored as complete.
 */
export function isDelimited({ contentLength, fields, status }: ReceivedHead): boolean {
  return contentLength !== undefined || fields.has(FIELD['transfer-encoding']) || status === 204
}
