/** What turns names into addresses in a proxy with a configuration. */
import type { Config } from '../config/schema.js'
import { DnsCache } from './dns-cache.js'
import { DnsServers } from './dns-servers.js'
import { type AddressLookup, type NameSource, systemLookup, untimed } from './lookup.js'
import { createResolver, type Resolver } from './resolve.js'

/** @param lookup in place of the system's resolver and of `dns.servers` */
export function createNames(
  config: Config,
  now: () => number,
  lookup?: AddressLookup,
): { readonly resolver: Resolver; close(): void } {
  const names = nameSource(config, lookup)
  const cache = new DnsCache({ ...config.dns, lookup: names.lookup, now })
  return { resolver: createResolver(cache, config.dns.timeoutMs), close: () => names.close() }
}

function nameSource({ dns }: Config, lookup: AddressLookup | undefined): NameSource {
  if (lookup === undefined && dns.servers.length > 0) return new DnsServers(dns)
  return untimed(lookup ?? systemLookup)
}
