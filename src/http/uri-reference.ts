/**
 * URI references, resolved against the URI of a request (RFC 3986 §5.2): the values of Location and Content-Location.
 *
 * The bytes of path and query are not changed. A URL parser would escape some and decode others, and the result would
 * not be the URI with which a client requests the same resource.
 */

/** Scheme, authority, path and query of a reference; the fragment is not part of a request (RFC 3986 §5.2). */
const REFERENCE = /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(\?[^#]*)?(?:#.*)?$/
const VISIBLE = /^[\x21-\x7e]*$/
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[^:@[\]]+)(?::(\d{0,5}))?$/
const DEFAULT_PORTS: ReadonlyMap<string, string> = new Map([
  ['http', '80'],
  ['https', '443'],
])

/**
 * @param reference the value of a field
 * @param base `scheme://authority/path?query`, with the authority in lower case and with a port
 * @returns the URI in the form of `base`; undefined when its scheme is neither http nor https, or it is malformed
 */
export function resolveReference(reference: string, base: string): string | undefined {
  const [, baseScheme, baseAuthority, basePath = '', baseQuery = ''] = REFERENCE.exec(base) ?? []
  const parts = VISIBLE.test(reference) ? REFERENCE.exec(reference) : null
  if (parts === null || baseScheme === undefined || baseAuthority === undefined) return undefined
  const [, scheme, authority, path = '', query = ''] = parts
  if (authority !== undefined) return uriOf(scheme ?? baseScheme, authority, removeDotSegments(path), query)
  // Without an authority the URI is invalid for http and https (RFC 9110 §4.2.1).
  if (scheme !== undefined) return undefined
  if (path === '') return uriOf(baseScheme, baseAuthority, basePath, query === '' ? baseQuery : query)
  const merged = path.startsWith('/') ? path : basePath.slice(0, basePath.lastIndexOf('/') + 1) + path
  return uriOf(baseScheme, baseAuthority, removeDotSegments(merged), query)
}

/** Whether two URIs of that form have the same scheme, host and port (RFC 9110 §4.3.1). */
export function isSameOrigin(a: string, b: string): boolean {
  const origin = originOf(a)
  return origin !== undefined && origin === originOf(b)
}

function originOf(uri: string): string | undefined {
  const [, scheme, authority] = REFERENCE.exec(uri) ?? []
  return scheme === undefined || authority === undefined ? undefined : `${scheme}://${authority}`
}

function uriOf(scheme: string, authority: string, path: string, query: string): string | undefined {
  const lower = scheme.toLowerCase()
  const [, host, port] = AUTHORITY.exec(authority.toLowerCase()) ?? []
  const defaultPort = DEFAULT_PORTS.get(lower)
  if (host === undefined || defaultPort === undefined) return undefined
  const number = port === undefined || port === '' ? defaultPort : String(Number(port))
  return `${lower}://${host}:${number}${path.startsWith('/') ? path : `/${path}`}${query}`
}

/** Removes `.` and `..` segments (RFC 3986 §5.2.4). */
function removeDotSegments(path: string): string {
  if (!path.includes('.')) return path
  const segments = path.split('/')
  const kept: string[] = []
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1
    if (segment === '..') {
      if (kept.length > 1) kept.pop()
      if (isLast) kept.push('')
    } else if (segment === '.') {
      if (isLast) kept.push('')
    } else kept.push(segment)
  }
  return kept.join('/')
}
