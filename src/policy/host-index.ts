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

/** Of a suffix with its dot: a name has 253 characters at most. */
const MAX_NAME = 254

export class HostIndex<T> {
  readonly #names = new Map<string, T[]>()
  readonly #suffixes = new Map<string, T[]>()
  /** 1 for each length that a suffix has: of most names no part needs to be cut off and looked up. */
  readonly #suffixLengths = new Uint8Array(MAX_NAME + 1)
  readonly #addresses = new CidrTree<T>()
  readonly #any: T[] = []

  add(pattern: HostPattern, value: T): void {
    switch (pattern.kind) {
      case 'any':
        push(this.#any, value)
        break
      case 'exact':
        append(this.#names, pattern.name, value)
        break
      case 'suffix':
        append(this.#suffixes, pattern.suffix, value)
        this.#suffixLengths[pattern.suffix.length] = 1
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
   * longest; for an address the longest prefix first. Where one pattern matches, it is that one's own list, and
   * nothing is allocated.
   *
   * @param ip the address that the host is written as, when it is one
   */
  matching(host: Host, ip: IpAddress | undefined): readonly T[] {
    return ip === undefined ? this.#naming(host.name) : this.holding(ip)
  }

  /** The values of the address and CIDR patterns that hold an address, longest prefix first. */
  holding(ip: IpAddress): readonly T[] {
    return this.#addresses.find(ip)
  }

  #naming(name: string): readonly T[] {
    let found: readonly T[] = this.#names.get(name) ?? NOTHING
    for (let dot = name.indexOf('.'); dot !== -1; dot = name.indexOf('.', dot + 1)) {
      if (this.#suffixLengths[name.length - dot] !== 1) continue
      const below = this.#suffixes.get(name.slice(dot))
      if (below !== undefined) found = found.length === 0 ? below : [...found, ...below]
    }
    return found
  }
}

const NOTHING: readonly never[] = []

/** The address a host is written as, or undefined for a name. */
export function literalAddress(host: Host): IpAddress | undefined {
  return host.kind === 'name' ? undefined : parseIpAddress(host.name)
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else push(list, value)
}

/** One value may come under one pattern twice in a row: a host that a rule lists twice. */
function push<T>(list: T[], value: T): void {
  if (list[list.length - 1] !== value) list.push(value)
}
