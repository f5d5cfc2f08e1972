/**
 * An index of host patterns. The cost of a lookup depends on the labels of the host, or the bits of the address, and not
 * on the number of patterns.
 *
 * `*` is stored separately. The caller decides whether it matches a host: `*` in a rule matches neither addresses nor
 * localhost, while `*` in `deny` matches everything.
 */
import type { Host } from '../http/authority.js'
import { cidrOfAddress } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import type { HostPattern } from '../net/host-pattern.js'
import { type IpAddress, parseIpAddress } from '../net/ip-address.js'

/** The longest suffix, with its dot: a name has at most 253 characters. */
const MAX_NAME = 254

export class HostIndex<T> {
  readonly #names = new Map<string, T[]>()
  readonly #suffixes = new Map<string, T[]>()
  /** 1 for each length of a suffix, so that most names need no substring and no lookup. */
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
   * The values of all matching patterns except `*`, most specific first: the exact name, then suffixes from the longest;
   * for an address the longest prefix first. If only one pattern matches, its own list is returned and nothing is
   * allocated.
   *
   * @param ip the address, if the host is written as one
   */
  matching(host: Host, ip: IpAddress | undefined): readonly T[] {
    return ip === undefined ? this.#naming(host.name) : this.holding(ip)
  }

  /** The values of the address and CIDR patterns that contain an address, longest prefix first. */
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

/** The address that a host is written as; undefined for a name. */
export function literalAddress(host: Host): IpAddress | undefined {
  return host.kind === 'name' ? undefined : parseIpAddress(host.name)
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else push(list, value)
}

/** A rule may list a host twice, so the same value may be added twice in a row. */
function push<T>(list: T[], value: T): void {
  if (list[list.length - 1] !== value) list.push(value)
}
