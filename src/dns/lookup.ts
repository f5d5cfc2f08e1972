/** What answers for names: the form that every source of addresses has, and the system's own resolver. */
import { lookup } from 'node:dns/promises'

export interface Answer {
  /** IP literals in the resolver's order; none when the name has no address. */
  readonly addresses: readonly string[]
  /** How long they hold, in milliseconds; undefined when nobody said. */
  readonly ttlMs: number | undefined
}

/**
 * Rejects with an error that has a `code`, ENOTFOUND or ENODATA for a name that has no address, or a ProxyError.
 * @param wanted aborts when nobody waits for the answer any more
 */
export type Lookup = (name: string, wanted?: AbortSignal) => Promise<Answer>

/** A lookup that says nothing of time. */
export type AddressLookup = (name: string) => Promise<readonly string[]>

export interface NameSource {
  readonly lookup: Lookup
  /** Whether a lookup ends when nobody waits for it any more. */
  readonly endsAtAbort: boolean
  /** The addresses of a name for which nobody has to be asked. */
  readonly known?: (name: string) => readonly string[] | undefined
  /**
   * What is asked for in place of a name that a request asks for, in this order, until one has an address; undefined
   * where it is the name itself.
   */
  readonly completions?: (name: string) => readonly string[] | undefined
  /** Ends what is still being asked. */
  close(): void
}

/** The resolver that the system is set up with, /etc/hosts and search domains included. */
export async function systemLookup(name: string): Promise<readonly string[]> {
  const addresses = await lookup(name, { all: true, verbatim: true })
  return addresses.map(({ address }) => address)
}

/** How many threads libuv has by default, and at most. */
const DEFAULT_THREADS = 4
const MAX_THREADS = 1024

/**
 * How many names the system's resolver looks up at a time: libuv gives half of its threads to it, and the others to
 * files. What is asked for beyond that waits in libuv, first come, first served, whoever still wants it.
 * @param threads the environment variable UV_THREADPOOL_SIZE, read as libuv reads it
 */
export function systemLookupsAtOnce(threads: string | undefined): number {
  const asked = threads === undefined ? DEFAULT_THREADS : Number.parseInt(threads, 10) || 1
  const count = asked < 0 ? MAX_THREADS : Math.min(asked, MAX_THREADS)
  return Math.floor((count + 1) / 2)
}

/** A source out of a lookup that cannot be ended. */
export function untimed(lookup: AddressLookup): NameSource {
  return {
    lookup: name => lookup(name).then(addresses => ({ addresses, ttlMs: undefined })),
    endsAtAbort: false,
    close: () => {},
  }
}
