/** The entry of `cache.rules` for a host: that of the most specific pattern that matches, `*` last. */
import type { Host } from '../http/authority.js'
import type { CacheRule } from '../config/cache.js'
import { literalAddress, HostIndex } from './host-index.js'

/** @returns undefined for a host without an entry */
export type CacheRules = (host: Host) => CacheRule | undefined

export function compileCacheRules(rules: readonly CacheRule[]): CacheRules {
  if (rules.length === 0) return () => undefined
  const index = new HostIndex<CacheRule>()
  for (const rule of rules) for (const pattern of rule.hosts) index.add(pattern, rule)
  return host => index.matching(host, literalAddress(host))[0] ?? index.any[0]
}
