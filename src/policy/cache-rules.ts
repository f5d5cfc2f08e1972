/** What `cache.rules` says of a host: the entry of the most specific pattern that names it, `*` last. */
import type { Host } from '../http/authority.js'
import type { CacheRule } from '../config/cache.js'
import { literalAddress, HostIndex } from './host-index.js'

/** @returns undefined for a host of which nothing is said */
export type CacheRules = (host: Host) => CacheRule | undefined

export function compileCacheRules(rules: readonly CacheRule[]): CacheRules {
  if (rules.length === 0) return () => undefined
  const index = new HostIndex<CacheRule>()
  for (const rule of rules) for (const pattern of rule.hosts) index.add(pattern, rule)
  return host => index.matching(host, literalAddress(host))[0] ?? index.any[0]
}
