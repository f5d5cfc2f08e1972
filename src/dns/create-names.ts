/** What turns names into addresses in a proxy with a configuration. */
import type { Config } from '../config/schema.js'
import type { Descriptors } from '../limits/descriptors.js'
import { FairQueue, type QueueLimits } from '../limits/fair-queue.js'
import { type LimitName, limitReached } from '../limits/refusals.js'
import { DnsCache } from './dns-cache.js'
import { DnsServers, NAMES_AT_ONCE } from './dns-servers.js'
import {
  type AddressLookup,
  type Answer,
  type NameSource,
  systemLookup,
  systemLookupsAtOnce,
  untimed,
} from './lookup.js'
import { createResolver, type Resolver } from './resolve.js'
import { type SystemNamesOptions, systemNames } from './system-names.js'

export interface Names {
  /** For names that requests ask for. */
  readonly resolver: Resolver
  /** For names that the configuration holds: what the system makes of them is what was meant. */
  readonly configured: Resolver
  close(): void
}

/** What names are resolved by where the configuration says nothing else. */
export interface NameEnvironment {
  /** In place of the system's resolver and of `dns.servers`. */
  readonly lookup?: AddressLookup
  /** What the system's resolver is set up with. */
  readonly system?: SystemNamesOptions
}

export interface NamesOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly descriptors: Descriptors
}

/**
 * All lookups of a process, whatever the configuration that they were begun under: they share its threads and sockets, and
 * those of a configuration that is gone may still run.
 */
export class Lookups {
  readonly queue: FairQueue<Answer>
  readonly #environment: NameEnvironment

  /** @param onRejected notified of each name that is refused for a limit */
  constructor(
    config: Config,
    environment: NameEnvironment,
    onRejected: (limit: LimitName) => void = () => {},
  ) {
    this.#environment = environment
    this.queue = new FairQueue({
      limits: lookupLimits(config),
      atOnce: this.#atOnce(config),
      refuse: (limit, value) => {
        const name = limit === 'inAll' ? 'dns_lookups' : 'dns_lookups_per_client'
        onRejected(name)
        return limitReached(name, String(value))
      },
    })
  }

  /** Goes on with the bounds of another configuration. */
  configure(config: Config): void {
    this.queue.configure(lookupLimits(config), this.#atOnce(config))
  }

  names({ dns }: Config, { now, descriptors }: NamesOptions): Names {
    const { queue } = this
    const { lookup, system } = this.#environment
    const resolverOf = (source: NameSource): Resolver =>
      createResolver(new DnsCache({ ...dns, source, queue, now }), dns.timeoutMs, source)
    if (lookup === undefined && dns.servers.length === 0) {
      return {
        resolver: resolverOf(systemNames(system)),
        configured: resolverOf(untimed(system?.lookup ?? systemLookup)),
        close: () => {},
      }
    }
    const source = lookup === undefined ? new DnsServers({ ...dns, descriptors }) : untimed(lookup)
    const resolver = resolverOf(source)
    return { resolver, configured: resolver, close: () => source.close() }
  }

  #atOnce({ dns }: Config): number {
    if (dns.servers.length > 0) return NAMES_AT_ONCE
    return systemLookupsAtOnce(this.#environment.system?.environment?.['UV_THREADPOOL_SIZE'])
  }
}

function lookupLimits({ limits }: Config): QueueLimits {
  return { inAll: limits.dnsLookups, perClient: limits.dnsLookupsPerClient }
}
