/**
 * The four forms of request target, distinguished and checked on the received bytes (RFC 9112 §3.2).
 *
 * No URL parser is used, since URL parsers normalise (fold case, resolve dot segments, decode, drop tabs), and the
 * policy must judge exactly what is forwarded. Path and query are forwarded unchanged.
 */
import { malformed } from '../errors.js'
import { type Authority, parseAuthority } from './authority.js'
import { type Method, methodProperties } from './method.js'

export type RequestTarget =
  | { readonly form: 'origin'; readonly path: string }
  | {
      readonly form: 'absolute'
      readonly scheme: 'http'
      readonly authority: Authority
      readonly path: string
    }
  | { readonly form: 'authority'; readonly authority: Authority }
  | { readonly form: 'asterisk' }

/**
 * Scheme and authority, which ends at the first `/` or `?` (RFC 3986 §3.2). A backslash does not end it, and is
 * rejected as a character of the host.
 */
const ABSOLUTE = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?]*)/
const HTTP_PORT = 80

/**
 * @param method decides which forms are allowed: authority-form only for CONNECT, `*` only for OPTIONS
 * @param text the request target as received, visible ASCII only
 * @returns the target; an empty path becomes `/`, and a `?query` after it is kept (RFC 9112 §3.2.1)
 * @throws ProxyError 400
 */
export function parseRequestTarget(method: Method, text: string): RequestTarget {
  const { targets } = methodProperties(method)
  if (targets.includes('authority')) return { form: 'authority', authority: parseAuthority(text) }
  if (text.includes('#')) throw malformed('fragment in the request target')
  if (text.startsWith('/')) return { form: 'origin', path: text }
  if (text === '*') {
    if (targets.includes('asterisk')) return { form: 'asterisk' }
    throw malformed(`${method} does not allow this target`)
  }
  const [start = '', scheme, authority = ''] = ABSOLUTE.exec(text) ?? []
  if (scheme === undefined) throw malformed('bad request target')
  const name = scheme.toLowerCase()
  if (name === 'https') throw malformed('https needs CONNECT', 400, 'https_target')
  if (name !== 'http') throw malformed('scheme not supported', 400, 'scheme')
  const rest = text.slice(start.length)
  return {
    form: 'absolute',
    scheme: 'http',
    authority: parseAuthority(authority, HTTP_PORT),
    path: rest.startsWith('/') ? rest : `/${rest}`,
  }
}
