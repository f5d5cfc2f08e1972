/** What answers for names: the form that every source of addresses has, and the system's own resolver as one. */
import { lookup } from 'node:dns/promises'

export interface Answer {
  /** IP literals in the resolver's order; none when the name has no address. */
  readonly addresses: readonly string[]
  /** How long they hold, in milliseconds; undefined when nobody said. */
  readonly ttlMs: number | undefined
}

/** Rejects with an error that has a `code`, ENOTFOUND or ENODATA for a name that has no address, or a ProxyError. */
export type Lookup = (name: string) => Promise<Answer>

/** A lookup that says nothing of time. */
export type AddressLookup = (name: string) => Promise<readonly string[]>

export interface NameSource {
  readonly lookup: Lookup
  /** Ends what is still being asked. */
  close(): void
}

/** The resolver that the system is set up with, /etc/hosts and search domains included. */
export async function systemLookup(name: string): Promise<readonly string[]> {
  const addresses = await lookup(name, { all: true, verbatim: true })
  return addresses.map(({ address }) => address)
}

/** A source out of a lookup that can not be ended. */
export function untimed(lookup: AddressLookup): NameSource {
  return {
    lookup: name => lookup(name).then(addresses => ({ addresses, ttlMs: undefined })),
    close: () => {},
  }
}
