/** The query of `POST /cache/purge`, which says what to purge: `?all`, `?host=a.example` or `?uri=URL`. */
import { parseCacheUri } from '../cache/cache-uri.js'
import { parseHost } from '../http/authority.js'
import type { Purge } from '../upstream/cache/store.js'

const EXPECTED = 'expected one of all, host=NAME and uri=URL in the query'

/**
 * @param query without its `?`
 * @throws RangeError with a clause that says what was expected
 */
export function parsePurge(query: string): Purge {
  const [first, ...more] = [...new URLSearchParams(query)]
  if (first === undefined || more.length > 0) throw new RangeError(EXPECTED)
  const [key, value] = first
  switch (key) {
    case 'all':
      if (value !== '') throw new RangeError(`${EXPECTED}; all has no value`)
      return { kind: 'all' }
    case 'host':
      return { kind: 'host', host: parsePurgedHost(value) }
    case 'uri':
      return { kind: 'uri', uri: parseCacheUri(value) }
    default:
      throw new RangeError(EXPECTED)
  }
}

/** The query that parsePurge reads. */
export function serializePurge(what: Purge): string {
  switch (what.kind) {
    case 'all':
      return 'all'
    case 'host':
      return `host=${encodeURIComponent(what.host)}`
    case 'uri':
      return `uri=${encodeURIComponent(what.uri)}`
  }
}

/**
 * @param text a host name or an IP address, IPv6 with or without brackets
 * @throws RangeError with a clause that says what was expected
 */
export function parsePurgedHost(text: string): string {
  const isBare = text.includes('::') || text.split(':').length > 2
  try {
    return parseHost(isBare && !text.startsWith('[') ? `[${text}]` : text).name
  } catch {
    throw new RangeError(
      `expected a host name or an IP address, without a port, found ${JSON.stringify(text)}`,
    )
  }
}
