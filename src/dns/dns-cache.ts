/**
 * How long an answer of DNS is kept, a failure too, and one query for all who ask for a name at once, which goes on for
 * as long as one of them waits for it.
 *
 * An answer holds as long as it says, within bounds; that a name has no address holds for a time of its own
 * (RFC 2308 §5), and a failure for a second, so that a name that can not be resolved is not asked for by every
 * request (RFC 9520 §3.2). What is kept are addresses alone: they are judged again for each request.
 *
 * An answer with more addresses than anybody needs is a failure: whoever runs a name decides how many it has, and could
 * fill the memory with them.
 */
import { ProxyError } from '../errors.js'
import type { FairQueue, QueueClient, QueuedWork } from '../limits/fair-queue.js'
import { isNotFound } from '../upstream/failures.js'
import type { Answer, NameSource } from './lookup.js'

export interface DnsCacheOptions {
  readonly source: Pick<NameSource, 'lookup' | 'endsAtAbort'>
  /** What queries wait in until the source is asked. */
  readonly queue: Pick<FairQueue<Answer>, 'create'>
  /** A query that runs for longer than this is not waited for by those who come new. */
  readonly timeoutMs: number
  /** How long an answer is kept of which it is not known how long it holds. */
  readonly minTtlMs: number
  /** Wins over `minTtlMs`. */
  readonly maxTtlMs: number
  readonly negativeTtlMs: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

/** How long a failure is kept: the shortest time that RFC 9520 §3.2 leaves. */
export const FAILURE_TTL_MS = 1000
/** More names than these are not kept; the one that came first is forgotten. */
export const MAX_NAMES = 4096
/** More addresses than these are not taken from one answer. */
export const MAX_ADDRESSES = 64

/** A name that was asked for. */
export interface AskedName {
  /** Rejects with what the lookup throws; with ProxyError dns_error when it finds more than MAX_ADDRESSES. */
  readonly answer: Promise<readonly string[]>
  /** Whether its query still waits for others to end. */
  readonly isWaiting: boolean
  /** The answer is not waited for any more; to be called once, also when it is there. */
  leave(): void
}

interface Entry {
  readonly answer: Promise<readonly string[]>
  /** While it is asked for. */
  lookup: QueuedWork<Answer> | undefined
  /** Undefined while it is asked for, and for a failure. */
  addresses: readonly string[] | undefined
  /** Until then it serves; while it is asked for, until then others wait for it. */
  untilMs: number
}

export class DnsCache {
  readonly #options: DnsCacheOptions
  readonly #entries = new Map<string, Entry>()

  constructor(options: DnsCacheOptions) {
    this.#options = options
  }

  /** The addresses that are kept, none for a name that has none; undefined when it has to be asked for. */
  kept(name: string): readonly string[] | undefined {
    return this.#fresh(name)?.addresses
  }

  /** Keeps what is known without a query, for as long as an answer of which it is not known how long it holds. */
  keep(name: string, addresses: readonly string[]): void {
    const entry: Entry = { lookup: undefined, answer: Promise.resolve(addresses), addresses, untilMs: 0 }
    this.#keep(name, entry, addresses, this.#ttlMs({ addresses, ttlMs: undefined }))
  }

  /**
   * What is kept, failures too, or what DNS answers. Where the source can not end a query, it goes on when nobody waits
   * for it any more, and its answer is kept.
   * @param client whom a query is counted for
   * @throws ProxyError 429 or 503 when too many queries wait
   */
  ask(name: string, client: QueueClient): AskedName {
    const kept = this.#fresh(name)
    const entry = kept ?? this.#create(name)
    const { answer, lookup } = entry
    if (lookup === undefined) return { answer, isWaiting: false, leave() {} }
    const leave = lookup.join(client)
    if (kept === undefined) this.#put(name, entry)
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

  /** What runs only once it was joined. */
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
          this.#keep(name, entry, found.addresses, this.#ttlMs(found))
          return found.addresses
        },
        (error: unknown) => {
          this.#keep(name, entry, undefined, isNotFound(error) ? negativeTtlMs : FAILURE_TTL_MS)
          throw error
        },
      )
    // Everybody may have left when it fails.
    answer.catch(() => {})
    const entry: Entry = { answer, lookup, addresses: undefined, untilMs: Number.POSITIVE_INFINITY }
    return entry
  }

  #ttlMs({ addresses, ttlMs }: Answer): number {
    const { minTtlMs, maxTtlMs, negativeTtlMs } = this.#options
    if (addresses.length === 0) return negativeTtlMs
    return Math.min(Math.max(ttlMs ?? 0, minTtlMs), maxTtlMs)
  }

  /** A query that was overtaken by another still counts when it brings an answer, but not when it fails. */
  #keep(name: string, entry: Entry, addresses: Entry['addresses'], ttlMs: number): void {
    if (addresses === undefined && this.#entries.get(name) !== entry) return
    entry.lookup = undefined
    entry.addresses = addresses
    entry.untilMs = this.#options.now() + ttlMs
    this.#put(name, entry)
  }

  /** As the newest. */
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
    detail: `DNS has ${count} addresses for ${name}, and at most ${MAX_ADDRESSES} are taken. No configuration key allows more.`,
  })
}
