/**
 * Caches DNS answers, including failures, and shares one query among all who ask for the same name at the same time.
 * The query continues as long as one of them waits for it.
 *
 * An answer is valid for its TTL, within limits; that a name has no address is valid for a time of its own (RFC 2308
 * §5); a failure is cached for a second, so that a name that cannot be resolved is not queried for every request
 * (RFC 9520 §3.2). Only addresses are cached: the policy judges them again for each request.
 *
 * An answer with too many addresses is a failure: the owner of a name decides how many it has, and could fill the
 * memory.
 */
import { ProxyError } from '../errors.js'
import type { FairQueue, QueueClient, QueuedWork, QueueShare } from '../limits/fair-queue.js'
import { isNotFound } from '../upstream/failures.js'
import type { Answer, NameSource } from './lookup.js'

export interface DnsCacheOptions {
  readonly source: Pick<NameSource, 'lookup' | 'endsAtAbort'>
  /** Queries wait in this queue before the source is asked. */
  readonly queue: Pick<FairQueue<Answer>, 'create'>
  /** A query that has run longer than this is not shared with new requests. */
  readonly timeoutMs: number
  /** How long an answer without a TTL is valid, and the least for any other. */
  readonly minTtlMs: number
  /** Takes precedence over `minTtlMs`. */
  readonly maxTtlMs: number
  readonly negativeTtlMs: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

/** How long a failure is cached: the minimum of RFC 9520 §3.2. */
export const FAILURE_TTL_MS = 1000
/** The most names in the cache; the oldest one is removed first. */
export const MAX_NAMES = 4096
/** The most addresses that are accepted in one answer. */
export const MAX_ADDRESSES = 64

/** A query, or a cached answer, for a name. */
export interface PendingLookup {
  /** Rejects with the error of the lookup; with ProxyError dns_error when it finds more than MAX_ADDRESSES. */
  readonly answer: Promise<readonly string[]>
  /** Whether the query still waits in the queue. */
  readonly isWaiting: boolean
  /** Must be called once when the answer is not needed any more, also after it was received. */
  leave(): void
}

interface Entry {
  readonly answer: Promise<readonly string[]>
  /** Undefined once it is answered. */
  lookup: QueuedWork<Answer> | undefined
  /** Undefined while the query runs, and for a failure. */
  addresses: readonly string[] | undefined
  /** When the entry expires; while the query runs, until when new requests share it. */
  untilMs: number
}

export class DnsCache {
  readonly #options: DnsCacheOptions
  readonly #entries = new Map<string, Entry>()

  constructor(options: DnsCacheOptions) {
    this.#options = options
  }

  /** The cached addresses, empty for a name without any; undefined when a query is needed. */
  cached(name: string): readonly string[] | undefined {
    return this.#fresh(name)?.addresses
  }

  /** Adds addresses that are known without a query, for as long as an answer without a TTL. */
  add(name: string, addresses: readonly string[]): void {
    const entry: Entry = { lookup: undefined, answer: Promise.resolve(addresses), addresses, untilMs: 0 }
    this.#store(name, entry, addresses, this.#ttlMs({ addresses, ttlMs: undefined }))
  }

  /**
   * Returns the cached answer, which may be a failure, or starts a query. If the source cannot end a query, it
   * continues when nobody waits for it any more, and its answer is cached.
   * @param client for which the query is counted
   * @param share of the client, if it has one of its own
   * @throws ProxyError 429 or 503 when too many queries wait
   */
  ask(name: string, client: QueueClient, share?: QueueShare): PendingLookup {
    const cached = this.#fresh(name)
    const entry = cached ?? this.#create(name)
    const { answer, lookup } = entry
    if (lookup === undefined) return { answer, isWaiting: false, leave() {} }
    const leave = lookup.join(client, share)
    if (cached === undefined) this.#put(name, entry)
    return {
      answer,
      leave,
      get isWaiting() {
        return lookup.isWaiting
      },
    }
  }

  #fresh(name: string): Entry | undefined {
    const entry = this.#entries.get(name)
    return entry !== undefined && this.#options.now() < entry.untilMs ? entry : undefined
  }

  /** The query starts only when it is joined. */
  #create(name: string): Entry {
    const { source, queue, timeoutMs, negativeTtlMs, now } = this.#options
    const lookup = queue.create({
      endsAtAbort: source.endsAtAbort,
      run: signal => {
        entry.untilMs = now() + timeoutMs
        return source.lookup(name, signal)
      },
      onDrop: () => {
        if (this.#entries.get(name) === entry) this.#entries.delete(name)
      },
    })
    const answer = lookup.answer
      .then(found => bounded(name, found))
      .then(
        found => {
          this.#store(name, entry, found.addresses, this.#ttlMs(found))
          return found.addresses
        },
        (error: unknown) => {
          this.#store(name, entry, undefined, isNotFound(error) ? negativeTtlMs : FAILURE_TTL_MS)
          throw error
        },
      )
    // When it fails, nobody may be waiting any more.
    answer.catch(() => {})
    const entry: Entry = { answer, lookup, addresses: undefined, untilMs: Number.POSITIVE_INFINITY }
    return entry
  }

  #ttlMs({ addresses, ttlMs }: Answer): number {
    const { minTtlMs, maxTtlMs, negativeTtlMs } = this.#options
    if (addresses.length === 0) return negativeTtlMs
    return Math.min(Math.max(ttlMs ?? 0, minTtlMs), maxTtlMs)
  }

  /** If a newer query has replaced this one, its answer is still used, but not its failure. */
  #store(name: string, entry: Entry, addresses: Entry['addresses'], ttlMs: number): void {
    if (addresses === undefined && this.#entries.get(name) !== entry) return
    entry.lookup = undefined
    entry.addresses = addresses
    entry.untilMs = this.#options.now() + ttlMs
    this.#put(name, entry)
  }

  /** Inserts the entry as the newest one. */
  #put(name: string, entry: Entry): void {
    this.#entries.delete(name)
    this.#entries.set(name, entry)
    if (this.#entries.size <= MAX_NAMES) return
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest)
      return
    }
  }
}

function bounded(name: string, found: Answer): Answer {
  const count = found.addresses.length
  if (count <= MAX_ADDRESSES) return found
  throw new ProxyError('dns_error', `too many addresses found for ${name}`, {
    detail: `DNS has ${count} addresses for ${name}, and at most ${MAX_ADDRESSES} are accepted. No configuration key allows more.`,
  })
}
