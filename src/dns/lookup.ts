/** Sources of addresses for names: the interface of every source, and the system's own resolver. */
import { lookup } from 'node:dns/promises'

export interface Answer {
  /** IP literals in the resolver's order; empty when the name has no address. */
  readonly addresses: readonly string[]
  /** How long they are valid, in milliseconds; undefined when unknown. */
  readonly ttlMs: number | undefined
}

/**
 * Rejects with an error that has a `code`, ENOTFOUND or ENODATA for a name without addresses, or with a ProxyError.
 * @param wanted aborts when nobody waits for the answer any more
 */
export type Lookup = (name: string, wanted?: AbortSignal) => Promise<Answer>

/** A lookup whose answers have no TTL. */
export type AddressLookup = (name: string) => Promise<readonly string[]>

export interface NameSource {
  readonly lookup: Lookup
  /** Whether a lookup ends when `wanted` aborts. */
  readonly endsAtAbort: boolean
  /** The addresses of a name that are known without a query. */
  readonly known?: (name: string) => readonly string[] | undefined
  /**
   * The names to look up instead of a requested one, in this order, until one has an address; undefined when the name
   * is looked up unchanged.
   */
  readonly completions?: (name: string) => readonly string[] | undefined
  /** Ends all running lookups. */
  close(): void
}

/** The resolver of the operating system, with /etc/hosts and search domains. */
export async function systemLookup(name: string): Promise<readonly string[]> {
  const addresses = await lookup(name, { all: true, verbatim: true })
  return addresses.map(({ address }) => address)
}

/** The number of threads that libuv has by default, and the maximum. */
const DEFAULT_THREADS = 4
const MAX_THREADS = 1024

/**
 * The number of names that the system's resolver looks up at a time: libuv reserves half of its threads for other work,
 * such as files. Further lookups would wait in libuv in order of arrival, even if nobody needs them any more.
 * @param threads the environment variable UV_THREADPOOL_SIZE, parsed as libuv does
 */
export function systemLookupsAtOnce(threads: string | undefined): number {
  const asked = threads === undefined ? DEFAULT_THREADS : Number.parseInt(threads, 10) || 1
  const count = asked < 0 ? MAX_THREADS : Math.min(asked, MAX_THREADS)
  return Math.floor((count + 1) / 2)
}

/** Creates a source from a lookup that cannot be cancelled. */
export function untimed(lookup: AddressLookup): NameSource {
  return {
    lookup: name => lookup(name).then(addresses => ({ addresses, ttlMs: undefined })),
    endsAtAbort: false,
    close: () => {},
  }
}
