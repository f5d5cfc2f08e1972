/**
 * The URI of a cache key (RFC 9111 §2): scheme, host in lower case, port always, and path and query in the bytes that were
 * asked for. Two spellings of one resource that differ in anything else are two keys.
 */
import { type Authority, parseAuthority, serializeHostPort } from '../http/authority.js'

/** @param path with its query; begins with `/` */
export function serializeCacheUri(scheme: string, { host, port }: Authority, path: string): string {
  return `${scheme}://${serializeHostPort(host, port)}${path}`
}

/** Scheme and authority, which ends at the first `/` or `?` (RFC 3986 §3.2). */
const URL_START = /^(https?):\/\/([^/?]*)/i
const PORTS = { http: 80, https: 443 } as const
/** Whatever is not visible ASCII has no place in a request target, nor has a fragment. */
const NOT_IN_TARGET = /[^!-~]|#/

/**
 * @param text an http or https URL, in the spelling that a client would ask for it in
 * @returns the URI of its key
 * @throws RangeError with a clause that says what was expected
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
