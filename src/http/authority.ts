/**
 * The authority component, `host:port`, in the targets of CONNECT, in absolute-form targets and in the Host field
 * (RFC 9110 §4.2.1, §7.2; RFC 9112 §3.2.3; RFC 3986 §3.2).
 *
 * The text is parsed as received and never repaired. Spellings that other parsers would convert to an address
 * (`0177.0.0.1`, `2130706433`, `127.1`, full-width digits) are rejected here. Otherwise the policy could judge one
 * spelling while the resolver understands another, and bytes would go to a host that was never allowed.
 */
import { isIPv6 } from 'node:net'
import { malformed } from '../errors.js'
import { FIELD, type FieldSection } from './field-section.js'

/** A host: a registered name in lower case without its trailing dot, or an IP literal without brackets. */
export interface Host {
  readonly kind: 'name' | 'ipv4' | 'ipv6'
  readonly name: string
}

/** `text` is the authority as received; the Host field of the forwarded request is made from it. */
export interface Authority {
  readonly host: Host
  readonly port: number
  readonly text: string
}

const HTTP_PORT = 80
const MAX_NAME_BYTES = 253
/** Tested before the name is converted to lower case, which would turn the Kelvin sign into an ASCII letter. */
const LABEL = /^(?=.*[A-Za-z0-9])[A-Za-z0-9_-]{1,63}$/
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/
/** A last label that a resolver would read as a number: all digits, or `0x` and hexadecimal digits. */
const NUMERIC_LABEL = /^(?:\d+|0x[0-9a-f]*)$/i
const PORT = /^\d{1,5}$/

/**
 * @param text a host as written in an authority: IPv6 in brackets, anything else without
 * @throws ProxyError 400 when it is neither a host name, nor four plain decimal parts, nor a bracketed IPv6 address
 * @see RFC 3986 §3.2.2, RFC 1123 §2.1
 */
export function parseHost(text: string): Host {
  if (text === '') throw malformed('empty host')
  if (text.startsWith('[')) {
    const inner = text.endsWith(']') ? text.slice(1, -1) : ''
    if (inner.includes('%') || !isIPv6(inner)) throw malformed('bad IPv6 literal')
    return { kind: 'ipv6', name: inner.toLowerCase() }
  }
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  if (IPV4.test(name)) return { kind: 'ipv4', name }
  if (name.length > MAX_NAME_BYTES) throw malformed('host name too long')
  const labels = name.split('.')
  if (!labels.every(label => LABEL.test(label))) throw malformed('bad host name')
  if (NUMERIC_LABEL.test(labels[labels.length - 1] ?? '')) throw malformed('bad IPv4 literal')
  return { kind: 'name', name: name.toLowerCase() }
}

/**
 * @param text `host:port`, or `host` alone where `defaultPort` is given
 * @param defaultPort the scheme's port; without it (CONNECT) the port is required
 * @throws ProxyError 400 on userinfo, an empty or bad host, or a port that is not 1 to 65535 in plain digits
 * @see RFC 9112 §3.2.3, RFC 9110 §4.2.4
 */
export function parseAuthority(text: string, defaultPort?: number): Authority {
  if (text.includes('@')) throw malformed('userinfo in the authority')
  const bracket = text.lastIndexOf(']')
  const colon = text.indexOf(':', bracket + 1)
  if (colon === -1) {
    if (defaultPort === undefined) throw malformed('no port in the authority')
    return { host: parseHost(text), port: defaultPort, text }
  }
  const host = parseHost(text.slice(0, colon))
  const digits = text.slice(colon + 1)
  if (digits === '' && defaultPort !== undefined) return { host, port: defaultPort, text }
  const port = PORT.test(digits) ? Number(digits) : 0
  if (port < 1 || port > 65535) throw malformed('bad port')
  return { host, port, text }
}

/**
 * The Host field: exactly one in HTTP/1.1, well-formed in every version (RFC 9112 §3.2, RFC 9110 §7.2).
 *
 * In absolute-form and authority-form the target decides where a request goes, and only the syntax of Host is checked:
 * it may differ from the target (some clients omit the port), and is replaced before the request is forwarded.
 * @param minor the minor version of the request: 1.1 must have a Host field, 1.0 need not
 * @param target the authority of the request target, which most clients repeat in Host
 * @returns the authority in Host, or undefined when there is no Host field
 * @throws ProxyError 400 when it is missing in HTTP/1.1, repeated, empty, or not `host[:port]`
 */
export function parseHostField(
  fields: FieldSection,
  minor: 0 | 1,
  target?: Authority,
): Authority | undefined {
  const value = fields.single(FIELD.host, 'Host')
  if (value === undefined) {
    if (minor === 1) throw malformed('no Host')
    return undefined
  }
  return value === target?.text ? target : parseAuthority(value, HTTP_PORT)
}

/** `host:port` for messages and logs; IPv6 in brackets. */
export function serializeHostPort(host: Host, port: number): string {
  return host.kind === 'ipv6' ? `[${host.name}]:${port}` : `${host.name}:${port}`
}
