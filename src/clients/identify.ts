/**
 * Who is asking: the first client entry whose blocks hold the address of the connection. Entries are ordered, and an
 * address that none holds is nobody's.
 */
import { type Cidr, cidrContains } from '../net/cidr.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'

export interface Client {
  readonly name: string
  readonly cidr?: readonly Cidr[]
  /** The rules it may use. */
  readonly rules: readonly string[] | 'all'
}

/** Addresses remembered; all are forgotten when there are more, which costs one look-up each. */
const MAX_REMEMBERED = 10_000

export class Clients {
  readonly #entries: readonly Client[]
  readonly #remembered = new Map<string, Client | undefined>()

  constructor(entries: readonly Client[]) {
    this.#entries = entries
  }

  /** @param address the remote address of a socket; IPv4 in IPv6 is judged as IPv4 */
  identify(address: string): Client | undefined {
    if (this.#remembered.has(address)) return this.#remembered.get(address)
    const client = this.#find(address)
    if (this.#remembered.size >= MAX_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(address, client)
    return client
  }

  #find(address: string): Client | undefined {
    const zone = address.indexOf('%')
    const parsed = parseIpAddress(zone === -1 ? address : address.slice(0, zone))
    if (parsed === undefined) return undefined
    const ip = unmapIpv4(parsed)
    return this.#entries.find(entry => entry.cidr?.some(cidr => cidrContains(cidr, ip)))
  }
}
