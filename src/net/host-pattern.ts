/**
 * Host patterns: the entries of `hosts` lists in the configuration. A pattern matches every host, one name, all names
 * below a domain, one address, or a block of addresses.
 *
 * A wildcard must be the whole first label. `*foo.com` or `a.*.b` would easily match more than the author of a rule
 * expects, so they are rejected with a suggestion of what to write instead.
 */
import { type Host, parseHost } from '../http/authority.js'
import { parseInternationalName } from './a-label.js'
import { type Cidr, parseCidr } from './cidr.js'
import { type IpAddress, parseIpAddress } from './ip-address.js'

/** `suffix` starts with its dot: `.example.com` matches every name below example.com, but not example.com itself. */
export type HostPattern =
  | { readonly kind: 'any' }
  | { readonly kind: 'exact'; readonly name: string }
  | { readonly kind: 'suffix'; readonly suffix: string }
  | { readonly kind: 'address'; readonly ip: IpAddress }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }

/** Describes in error messages what a key expects that accepts every kind of pattern. */
export const EXPECTED_PATTERN = 'a host name, "*.example.com", "*", an IP address or a CIDR'
const WITH_PORT = /^[^:]*:\d*$|\]:\d*$/

/**
 * Characters that occur in no host and no pattern, or a text between slashes: the user has written a regular
 * expression.
 */
const REGULAR_EXPRESSION = /^\/.+\/[a-z]*$|[\\^$|()+?]|\[[^\]]*-[^\]]*\]/

/** Parts of the error messages that depend on the key with the pattern. */
export interface PatternKey {
  /** What the key expects, if it does not accept every kind of pattern. */
  readonly expected?: string
  /** The text of the configuration file, if the pattern was derived from it. */
  readonly written?: string
  /** What to write instead of a port. */
  readonly ports?: string
}

/**
 * @param text a pattern; names in any case, with or without a trailing dot, internationalised or in the xn-- form; IPv6
 *   with or without brackets
 * @throws RangeError whose message says what was expected
 */
export function parseHostPattern(text: string, key: PatternKey = {}): HostPattern {
  const { expected = EXPECTED_PATTERN, written = text, ports = 'leave it out' } = key
  const invalid: PatternError = clause =>
    new RangeError(`expected ${expected}, found "${written}"${clause === undefined ? '' : `, ${clause}`}`)
  if (text === '*') return { kind: 'any' }
  const bracketed = text.startsWith('[') && text.endsWith(']')
  const ip = parseIpAddress(bracketed ? text.slice(1, -1) : text)
  if (ip !== undefined && !(bracketed && ip.family === 4)) return { kind: 'address', ip }
  if (text.includes('://')) throw invalid('a URL; write only its host')
  if (REGULAR_EXPRESSION.test(text)) {
    throw invalid(
      'which looks like a regular expression; write names, and "*.example.com" for all names below one',
    )
  }
  if (text.includes('/')) {
    const host = text.replace(/(?::\d*)?\/.*$/s, '')
    if (isName(host)) throw invalid(`with a path, but paths are not matched; write "${host}"`)
    return { kind: 'cidr', cidr: parseCidr(text) }
  }
  if (WITH_PORT.test(text)) throw invalid(`with a port; ${ports}`)
  if (/^\.[^.]/.test(text)) {
    const below = text.slice(1)
    throw invalid(`with a leading dot; write "*.${below}" for all names below it, and "${below}" for itself`)
  }
  if (text.startsWith('*.')) return { kind: 'suffix', suffix: `.${nameOf(text.slice(2), invalid)}` }
  if (text.includes('*')) throw invalid(partialWildcard(text))
  const host = hostOf(text, invalid)
  if (host.kind === 'name') return { kind: 'exact', name: host.name }
  const literal = parseIpAddress(host.name)
  if (literal === undefined) throw invalid()
  return { kind: 'address', ip: literal }
}

/** The canonical text of a pattern, which parseHostPattern accepts. */
export function serializeHostPattern(pattern: HostPattern): string {
  switch (pattern.kind) {
    case 'any':
      return '*'
    case 'exact':
      return pattern.name
    case 'suffix':
      return `*${pattern.suffix}`
    case 'address':
      return pattern.ip.text
    case 'cidr':
      return pattern.cidr.text
  }
}

/** The clause for a `*` that is not a whole label: what it would match, and what to write instead. */
function partialWildcard(text: string): string {
  const matched = text.replaceAll('*', 'other')
  const below = text.slice(text.indexOf('.', text.lastIndexOf('*')) + 1)
  const all = below.includes('.') && isName(below) ? `, or "*.${below}" for all names below ${below}` : ''
  return `where * is not the whole first label: it would match "${matched}" and names that nobody has checked; write each name${all}`
}

type PatternError = (clause?: string) => RangeError

function nameOf(text: string, invalid: PatternError): string {
  const host = hostOf(text, invalid)
  if (host.kind !== 'name') throw invalid('which is below an address; write a CIDR')
  return host.name
}

/** Whether the text is a host name, or `*.` and a host name; not an address. */
function isName(text: string): boolean {
  try {
    return parseHost(text.replace(/^\*\./, '')).kind === 'name'
  } catch {
    return false
  }
}

function hostOf(text: string, invalid: PatternError): Host {
  const ascii = parseInternationalName(text)
  if (ascii === undefined) {
    throw invalid('with characters that IDNA would replace; write the xn-- form')
  }
  try {
    return parseHost(ascii)
  } catch {
    throw invalid()
  }
}
