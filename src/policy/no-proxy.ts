/** The hosts that are reached directly although there is a parent proxy: those that `parent.no_proxy` names. */
import type { Host } from '../http/authority.js'
import type { HostPattern } from '../net/host-pattern.js'
import { HostIndex, literalAddress } from './host-index.js'

export class NoProxy {
  readonly #patterns = new HostIndex<HostPattern>()

  constructor(patterns: readonly HostPattern[]) {
    for (const pattern of patterns) this.#patterns.add(pattern, pattern)
  }

  /**
   * The most specific entry that matches the host; undefined if it goes through the parent. Addresses and CIDRs match only
   * hosts that are written as addresses: no name is resolved to find out.
   */
  entryFor(host: Host): HostPattern | undefined {
    return this.#patterns.matching(host, literalAddress(host))[0]
  }
}
