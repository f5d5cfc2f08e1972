/** Which stored URIs a purge covers. */
import type { Purge } from './store.js'

export function isPurged(uri: string, what: Purge): boolean {
  switch (what.kind) {
    case 'all':
      return true
    case 'uri':
      return uri === what.uri
    case 'host':
      return isOfHost(uri, what.host)
  }
}

/**
 * Whether a URI has a host, on any port.
 * @param host in lower case; an IPv6 address with or without brackets
 */
export function isOfHost(uri: string, host: string): boolean {
  const start = uri.indexOf('://') + 3
  const bracketed = uri[start] === '[' && host[0] !== '['
  const name = bracketed ? `[${host}]` : host
  const next = uri[start + name.length]
  return uri.startsWith(name, start) && (next === ':' || next === '/' || next === undefined || next === '?')
}
