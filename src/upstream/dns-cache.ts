/**
 * How long an answer of DNS is kept, a failure too, and one query for all who ask for a name at once.
 *
 * An answer holds as long as it says, within bounds; that a name has no address holds for a time of its own
 * (RFC 2308 §5), and a failure for a second, so that a name that can not be resolved is not asked for by every
 * request (RFC 9520 §3.2). What is kept are addresses alone: they are judged again for each request.
 *
 * An answer with more addresses than anybody needs is a failure: whoever runs a name decides how many it has, and could
 * fill the memory with them.
 */
import { ProxyError } from '../errors.js'
import { isNotFound } from './failures.js'
import type { Answer, Lookup } from './lookup.js'

export interface DnsCacheOptions {
  readonly lookup: Lookup
  /** A query that is older than this is not waited for by those who come new. */
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

interface Entry {
  readonly answer: Promise<readonly string[]>
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

  /**
   * What is kept, or what DNS answers. A query goes on when nobody waits for it any more, and its answer is kept.
   * @throws what the lookup throws, as long as that is kept; ProxyError dns_error when it finds more than MAX_ADDRESSES
   */
  lookup(name: string): Promise<readonly string[]> {
    const entry = this.#fresh(name) ?? this.#ask(name)
    return entry.answer
  }

  #fresh(name: string): Entry | undefined {
    const entry = this.#entries.get(name)
    return entry !== undefined && this.#options.now() < entry.untilMs ? entry : undefined
  }

  #ask(name: string): Entry {
    const { lookup, timeoutMs, negativeTtlMs, now } = this.#options
    const answer = lookup(name)
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
    const entry: Entry = { answer, addresses: undefined, untilMs: now() + timeoutMs }
    this.#put(name, entry)
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
