/**
 * The URI of a cache key (RFC 9111 §2): the scheme, the host in lower case, always the port, and path and query exactly as
 * requested. Other differences between two spellings of the same URI make two keys.
 */
import { type Authority, parseAuthority, serializeHostPort } from '../http/authority.js'

/** @param path the path with its query; begins with `/` */
export function serializeCacheUri(scheme: string, { host, port }: Authority, path: string): string {
  return `${scheme}://${serializeHostPort(host, port)}${path}`
}

/** Scheme and authority; the authority ends before the first `/` or `?` (RFC 3986 §3.2). */
const URL_START = /^(https?):\/\/([^/?]*)/i
const PORTS = { http: 80, https: 443 } as const
/** A request target contains only visible ASCII, and no fragment. */
const NOT_IN_TARGET = /[^!-~]|#/

/**
 * Parses a URL to the URI of its cache key.
 * @param text an http or https URL, spelled as a client would request it
 * @throws RangeError whose message says what was expected
 */
export function parseCacheUri(text: string): string {
  const refused = (clause: string) => new RangeError(`expected a URL such as http://a.example/b, ${clause}`)
  const [start = '', written = '', authority = ''] = URL_START.exec(text) ?? []
  if (start === '') throw refused('with http:// or https:// in front')
  if (NOT_IN_TARGET.test(text)) throw refused('without a fragment, and with other characters percent-encoded')
  const scheme = written.toLowerCase() === 'https' ? 'https' : 'http'
  const rest = text.slice(start.length)
  try {
    const path = rest.startsWith('/') ? rest : `/${rest}`
    return serializeCacheUri(scheme, parseAuthority(authority, PORTS[scheme]), path)
  } catch (error) {
    throw refused(error instanceof Error ? `and found ${error.message}` : 'with a host')
  }
}
