/**
 * Which entries of the configuration name a host: patterns compiled so that a look-up costs the labels of the host,
 * or the bits of the address, and not the number of patterns.
 *
 * `*` is kept apart. Whether it reaches a host is for the caller to say: a rule's `*` is neither an address nor
 * localhost, while a denial's `*` is everything.
 */
import type { Host } from '../http/authority.js'
import { cidrOfAddress } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import type { HostPattern } from '../net/host-pattern.js'
import { type IpAddress, parseIpAddress } from '../net/ip-address.js'

export class HostIndex<T> {
  readonly #names = new Map<string, T[]>()
  readonly #suffixes = new Map<string, T[]>()
  readonly #addresses = new CidrTree<T>()
  readonly #any: T[] = []

  add(pattern: HostPattern, value: T): void {
    switch (pattern.kind) {
      case 'any':
        this.#any.push(value)
        break
      case 'exact':
        append(this.#names, pattern.name, value)
        break
      case 'suffix':
        append(this.#suffixes, pattern.suffix, value)
        break
      case 'address':
        this.#addresses.add(cidrOfAddress(pattern.ip), value)
        break
      case 'cidr':
        this.#addresses.add(pattern.cidr, value)
        break
    }
  }

  /** The values under `*`, in the order added. */
  get any(): readonly T[] {
    return this.#any
  }

  /**
   * The values of every pattern but `*` that matches, most specific first: the name itself, then suffixes from the
   * longest; for an address the longest prefix first.
   */
  named(host: Host): T[] {
    const ip = literalAddress(host)
    if (ip !== undefined) return this.holding(ip)
    const found = [...(this.#names.get(host.name) ?? [])]
    for (let dot = host.name.indexOf('.'); dot !== -1; dot = host.name.indexOf('.', dot + 1)) {
      found.push(...(this.#suffixes.get(host.name.slice(dot)) ?? []))
    }
    return found
  }

  /** The values of the address and CIDR patterns that hold an address. */
  holding(ip: IpAddress): T[] {
    return this.#addresses.find(ip)
  }
}

/** The address a host is written as, or undefined for a name. */
export function literalAddress(host: Host): IpAddress | undefined {
  return host.kind === 'name' ? undefined : parseIpAddress(host.name)
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else list.push(value)
}
