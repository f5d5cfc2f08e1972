/**
 * Chooses the entry of `origins` for a request, by Host and path (RFC 9110 §7.4; RFC 3986 §3.3).
 *
 * An entry with a host takes precedence over one without; a name or an address over a wildcard or an address block; and a
 * longer wildcard or a smaller block over the others. Otherwise the longest path takes precedence. The order of the
 * entries does not matter.
 */
import type { Host } from '../http/authority.js'
import type { Method } from '../http/method.js'
import { comparablePath, isBelow } from '../http/path.js'
import { cidrContains } from '../net/cidr.js'
import type { HostPattern } from '../net/host-pattern.js'
import { parseIpAddress } from '../net/ip-address.js'

export interface RoutePlace {
  /** Its configuration key, such as `origins[0]`. */
  readonly key: string
  /** `any` also matches requests without a host. */
  readonly host: HostPattern
  /** A prefix that begins with `/`, in its comparable form. */
  readonly path: string
  readonly methods: readonly Method[]
}

/**
 * @param routes in the order of sortRoutes
 * @param host the host of the Host field; undefined if an HTTP/1.0 request has none
 * @param path the path as received, without the query
 */
export function findRoute<Route extends RoutePlace>(
  routes: readonly Route[],
  host: Host | undefined,
  path: string,
): Route | undefined {
  const comparable = comparablePath(path)
  return routes.find(route => isBelow(comparable, route.path) && matchesHost(route.host, host))
}

/** Sorts routes by precedence, the highest first. */
export function sortRoutes<Route extends RoutePlace>(routes: readonly Route[]): Route[] {
  return [...routes].sort((a, b) => hostRank(b.host) - hostRank(a.host) || b.path.length - a.path.length)
}

/** The rank of an exact host, which is larger than the length of any name. */
const EXACT = 1000

function hostRank(host: HostPattern): number {
  switch (host.kind) {
    case 'any':
      return -1
    case 'suffix':
      return host.suffix.length
    case 'cidr':
      return host.cidr.prefix
    case 'exact':
    case 'address':
      return EXACT
  }
}

function matchesHost(pattern: HostPattern, host: Host | undefined): boolean {
  if (pattern.kind === 'any') return true
  if (host === undefined) return false
  if (host.kind === 'name') {
    if (pattern.kind === 'exact') return host.name === pattern.name
    return pattern.kind === 'suffix' && host.name.endsWith(pattern.suffix)
  }
  const ip = parseIpAddress(host.name)
  if (ip === undefined) return false
  if (pattern.kind === 'address') return ip.text === pattern.ip.text
  return pattern.kind === 'cidr' && cidrContains(pattern.cidr, ip)
}
