/**
 * Host patterns: what `hosts` lists in the configuration hold. Everything, one name, all names below a domain, one
 * address, or a block of addresses.
 *
 * A wildcard is a whole leading label and nothing else. `*foo.com` or `a.*.b` would invite rules that match more
 * than their author had in mind, and are refused with what to write instead.
 */
import { type Host, parseHost } from '../http/authority.js'
import { parseInternationalName } from './a-label.js'
import { type Cidr, parseCidr } from './cidr.js'
import { type IpAddress, parseIpAddress } from './ip-address.js'

/** `suffix` starts with its dot: `.example.com` is every name below example.com and not the apex. */
export type HostPattern =
  | { readonly kind: 'any' }
  | { readonly kind: 'exact'; readonly name: string }
  | { readonly kind: 'suffix'; readonly suffix: string }
  | { readonly kind: 'address'; readonly ip: IpAddress }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }

/** What messages say a key expects that takes every pattern. */
export const EXPECTED_PATTERN = 'a host name, "*.example.com", "*", an IP address or a CIDR'
const WITH_PORT = /^[^:]*:\d*$|\]:\d*$/

/** What no host has, nor any other pattern: as a whole between slashes, or by its characters. */
const REGULAR_EXPRESSION = /^\/.+\/[a-z]*$|[\\^$|()+?]|\[[^\]]*-[^\]]*\]/

/** How messages speak of the key that a pattern stands under. */
export interface PatternKey {
  /** What it takes, where that is not every pattern. */
  readonly expected?: string
  /** What stands there, where the pattern was made of it. */
  readonly written?: string
  /** What to do with a port. */
  readonly ports?: string
}

/**
 * @param text a pattern; names in any case, with or without a trailing dot, and in letters beyond ASCII or the xn--
 *   form of them; IPv6 with or without brackets
 * @throws RangeError with a clause that says what was expected
 */
export function parseHostPattern(text: string, key: PatternKey = {}): HostPattern {
  const { expected = EXPECTED_PATTERN, written = text, ports = 'leave it out' } = key
  const refused: Refused = clause =>
    new RangeError(`expected ${expected}, found "${written}"${clause === undefined ? '' : `, ${clause}`}`)
  if (text === '*') return { kind: 'any' }
  const bracketed = text.startsWith('[') && text.endsWith(']')
  const ip = parseIpAddress(bracketed ? text.slice(1, -1) : text)
  if (ip !== undefined && !(bracketed && ip.family === 4)) return { kind: 'address', ip }
  if (text.includes('://')) throw refused('a URL; write its host alone')
  if (REGULAR_EXPRESSION.test(text)) {
    throw refused('which looks like a regular expression; write names, and "*.example.com" for all below one')
  }
  if (text.includes('/')) {
    const host = text.replace(/(?::\d*)?\/.*$/s, '')
    if (isName(host)) throw refused(`with a path, which nothing is matched by; write "${host}"`)
    return { kind: 'cidr', cidr: parseCidr(text) }
  }
  if (WITH_PORT.test(text)) throw refused(`with a port; ${ports}`)
  if (/^\.[^.]/.test(text)) {
    const below = text.slice(1)
    throw refused(`with a dot in front; write "*.${below}" for all names below it, and "${below}" for itself`)
  }
  if (text.startsWith('*.')) return { kind: 'suffix', suffix: `.${nameOf(text.slice(2), refused)}` }
  if (text.includes('*')) throw refused('where * is not the whole first label')
  const host = hostOf(text, refused)
  if (host.kind === 'name') return { kind: 'exact', name: host.name }
  const literal = parseIpAddress(host.name)
  if (literal === undefined) throw refused()
  return { kind: 'address', ip: literal }
}

/** The pattern in the form parseHostPattern reads, canonical. */
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

type Refused = (clause?: string) => RangeError

function nameOf(text: string, refused: Refused): string {
  const host = hostOf(text, refused)
  if (host.kind !== 'name') throw refused('which is below an address; write a CIDR')
  return host.name
}

/** Whether something is a host name, or `*.` and one; not an address. */
function isName(text: string): boolean {
  try {
    return parseHost(text.replace(/^\*\./, '')).kind === 'name'
  } catch {
    return false
  }
}

function hostOf(text: string, refused: Refused): Host {
  const ascii = parseInternationalName(text)
  if (ascii === undefined) {
    throw refused('with characters that would not stay as they are; write the xn-- form')
  }
  try {
    return parseHost(ascii)
  } catch {
    throw refused()
  }
}
