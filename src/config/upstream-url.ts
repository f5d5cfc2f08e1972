/**
 * The URL of an upstream: `http://10.0.0.5:8080`, `https://api.example`. It has a scheme, a host and a port, but no path:
 * the paths of requests are forwarded unchanged.
 */
import { type Authority, parseAuthority, serializeHostPort } from '../http/authority.js'

export interface UpstreamUrl {
  readonly scheme: 'http' | 'https'
  readonly authority: Authority
  /** `scheme://host:port`, for messages and logs. */
  readonly text: string
}

/** For the JSON Schema; parseUpstreamUrl is stricter. */
export const UPSTREAM_PATTERN = '^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+/?$'
export const EXPECTED_UPSTREAM = 'expected a URL such as "http://10.0.0.5:8080" or "https://api.example"'

const URL_PARTS = /^(https?):\/\/([^/?#]*)(.*)$/i
const PORTS = { http: 80, https: 443 } as const

/** @throws RangeError whose message says what was expected, without credentials */
export function parseUpstreamUrl(text: string): UpstreamUrl {
  const [, scheme = '', written = '', rest = ''] = URL_PARTS.exec(text) ?? []
  if (scheme === '') throw refused(text, 'which does not begin with http:// or https://')
  if (rest !== '' && rest !== '/') throw refused(text, 'with a path or query; requests keep their own')
  const known = scheme.toLowerCase() === 'https' ? 'https' : 'http'
  let authority: Authority
  try {
    authority = parseAuthority(written, PORTS[known])
  } catch (error) {
    throw refused(text, error instanceof Error ? error.message : 'with a bad host')
  }
  return {
    scheme: known,
    authority,
    text: `${known}://${serializeHostPort(authority.host, authority.port)}`,
  }
}

function refused(text: string, clause: string): RangeError {
  return new RangeError(`${EXPECTED_UPSTREAM}, found "${withoutUserinfo(text)}", ${clause}`)
}

/** A URL for messages, without its userinfo, which may contain a password. */
export function withoutUserinfo(text: string): string {
  return text.replace(/:\/\/.*@/s, '://...@')
}
