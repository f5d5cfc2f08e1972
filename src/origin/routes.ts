/**
 * Which entry of `origins` a request goes to, by Host and path (RFC 9110 §7.4; RFC 3986 §3.3).
 *
 * An entry with a host beats one without, a name or an address a wildcard or a block, a longer wildcard or a smaller
 * block the others; among equals the longest path decides. The order of the entries has no meaning.
 */
import type { Host } from '../http/authority.js'
import type { Method } from '../http/method.js'
import { comparablePath, isBelow } from '../http/path.js'
import { cidrContains } from '../net/cidr.js'
import type { HostPattern } from '../net/host-pattern.js'
import { parseIpAddress } from '../net/ip-address.js'

export interface RoutePlace {
  /** The key it stands at, `origins[0]`. */
  readonly key: string
  /** `any` is for requests that name no host, too. */
  readonly host: HostPattern
  /** A prefix that begins with `/`, in its comparable form. */
  readonly path: string
  readonly methods: readonly Method[]
}

/**
 * @param routes as sortRoutes has them
 * @param host of the Host field; undefined when HTTP/1.0 sent none
 * @param path without query, as received
 */
export function findRoute<Route extends RoutePlace>(
  routes: readonly Route[],
  host: Host | undefined,
  path: string,
): Route | undefined {
  const comparable = comparablePath(path)
  return routes.find(route => isBelow(comparable, route.path) && matchesHost(route.host, host))
}

/** The routes with those that win over others before them. */
export function sortRoutes<Route extends RoutePlace>(routes: readonly Route[]): Route[] {
  return [...routes].sort((a, b) => hostRank(b.host) - hostRank(a.host) || b.path.length - a.path.length)
}

/** No name is as long as the rank of an exact host. */
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
