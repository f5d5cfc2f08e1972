/**
 * Which entry of `origins` a request goes to, by Host and path (RFC 9110 §7.4; RFC 3986 §3.3).
 *
 * An entry with a host beats one without, an exact host a wildcard, a longer wildcard a shorter one; among equals the
 * longest path decides. The order of the entries has no meaning.
 */
import type { Host } from '../http/authority.js'
import type { Method } from '../http/method.js'
import { comparablePath, isBelow } from '../http/path.js'
import type { HostPattern } from '../net/host-pattern.js'
import { parseIpAddress } from '../net/ip-address.js'

export interface RoutePlace {
  /** The key it stands at, `origins[0]`. */
  readonly key: string
  /** Absent: every host, and requests that name none. */
  readonly host: HostPattern | undefined
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

function hostRank(host: HostPattern | undefined): number {
  if (host === undefined) return 0
  return host.kind === 'suffix' ? host.suffix.length : EXACT
}

function matchesHost(pattern: HostPattern | undefined, host: Host | undefined): boolean {
  if (pattern === undefined) return true
  if (host === undefined) return false
  switch (pattern.kind) {
    case 'exact':
      return host.kind === 'name' && host.name === pattern.name
    case 'suffix':
      return host.kind === 'name' && host.name.endsWith(pattern.suffix)
    case 'address':
      return host.kind !== 'name' && parseIpAddress(host.name)?.text === pattern.ip.text
    case 'any':
    case 'cidr':
      return false
  }
}
