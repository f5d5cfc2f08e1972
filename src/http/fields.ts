/**
 * Header and trailer fields as received (RFC 9110 §5): a flat list of name, value, name, value, in order, with the
 * case of the names and every repeat kept. Values are one character a byte (latin1), so that bytes above 0x7f
 * leave as they came. Everything that reads fields goes through the functions here, which compare names without case.
 */
import { malformed } from '../errors.js'
import { isToken } from './token.js'

/** name, value, name, value, ... */
export type Fields = readonly string[]

/** Bytes that no field value may hold: controls other than HTAB, and DEL (RFC 9110 §5.5). */
const FORBIDDEN_IN_VALUE = /[\0-\x08\n-\x1f\x7f]/

/** Names that nearly every message carries, so that lower-casing them allocates nothing. */
const KNOWN_NAMES = new Map<string, string>(
  [
    'Accept Accept-Encoding Accept-Language Age Authorization Cache-Control Connection Content-Encoding',
    'Content-Language Content-Length Content-Type Cookie Date ETag Expect Expires Host If-Match If-Modified-Since',
    'If-None-Match Keep-Alive Last-Modified Location Max-Forwards Origin Pragma Proxy-Authorization',
    'Proxy-Connection Range Referer Server Set-Cookie TE Trailer Transfer-Encoding Upgrade User-Agent Vary Via',
  ]
    .join(' ')
    .split(' ')
    .flatMap(name => [
      [name, name.toLowerCase()] as const,
      [name.toLowerCase(), name.toLowerCase()] as const,
    ]),
)

/** The lower-case form by which a field name is compared (RFC 9110 §5.1). */
export function lowerName(name: string): string {
  return KNOWN_NAMES.get(name) ?? name.toLowerCase()
}

/** Every value of the field `name` (given in lower case), in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (lowerName(fields[i] as string) === name) values.push(fields[i + 1] as string)
  }
  return values
}

/** The first value of the field `name` (given in lower case). */
export function fieldValue(fields: Fields, name: string): string | undefined {
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (lowerName(fields[i] as string) === name) return fields[i + 1]
  }
  return undefined
}

/** Members of a comma-separated list over all lines of the field, trimmed, empty ones dropped (RFC 9110 §5.6.1). */
export function listMembers(fields: Fields, name: string): string[] {
  const members: string[] = []
  for (const value of fieldValues(fields, name)) {
    for (const part of value.split(',')) {
      const member = trimOws(part)
      if (member !== '') members.push(member)
    }
  }
  return members
}

/** Without optional white space at both ends: SP and HTAB alone, nothing else that trim() would take (§5.6.3). */
export function trimOws(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isOws(text.charCodeAt(start))) start++
  while (end > start && isOws(text.charCodeAt(end - 1))) end--
  return start === 0 && end === text.length ? text : text.slice(start, end)
}

function isOws(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/**
 * Reads one field line, without its CRLF, and appends name and value to `into`.
 *
 * A line that begins with white space is obs-fold, and white space before the colon hides a field from a
 * recipient that is less strict: both are refused, not repaired (RFC 9112 §5.1, §5.2).
 * @throws ProxyError 400
 */
export function parseFieldLine(line: string, into: string[]): void {
  const colon = line.indexOf(':')
  const name = colon === -1 ? line : line.slice(0, colon)
  if (colon === -1 || !(KNOWN_NAMES.has(name) || isToken(name))) {
    if (line.startsWith(' ') || line.startsWith('\t')) throw malformed('folded field line')
    throw malformed(colon === -1 ? 'field line without a colon' : 'bad field name')
  }
  const value = trimOws(line.slice(colon + 1))
  if (FORBIDDEN_IN_VALUE.test(value)) throw malformed('control character in a field value')
  into.push(name, value)
}

/** Whether there is a field `name` (given in lower case). */
export function hasField(fields: Fields, name: string): boolean {
  return fieldValue(fields, name) !== undefined
}
