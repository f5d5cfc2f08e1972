/**
 * Accept: selects the media type that a client prefers among those that are available (RFC 9110 §12.5.1).
 *
 * Members of the list that cannot be parsed are ignored. Preferences never cause an error: when none of the available
 * types is acceptable, the caller sends the same as to a client without an Accept field.
 */
import { type Fields, fieldValues, trimOws } from './fields.js'
import { isToken } from './token.js'

interface MediaRange {
  /** In lower case; `*` for any. */
  readonly type: string
  readonly subtype: string
  /** Without the weight; in lower case, `name=value`. An available type must have all of them to match. */
  readonly parameters: readonly string[]
  /** From 0, which means not acceptable, to 1 (RFC 9110 §12.4.2). */
  readonly weight: number
}

const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * @param offered media types in lower case, with parameters after `;` and without spaces; the first wins among those
 *   of equal weight
 * @returns one of `offered`, or undefined when none is acceptable; the first when there is no Accept field,
 *   or when no member of it can be parsed
 * @see RFC 9110 §12.5.1
 */
export function preferredMediaType<T extends string>(fields: Fields, offered: readonly T[]): T | undefined {
  const members = fieldValues(fields, 'accept').flatMap(value => splitOutsideQuotes(value, ','))
  const ranges = members.flatMap(parseMediaRange)
  let preferred: T | undefined
  let most = 0
  for (const mediaType of offered) {
    const weight = ranges.length === 0 ? 1 : weightOf(mediaType, ranges)
    if (weight > most) {
      preferred = mediaType
      most = weight
    }
  }
  return preferred
}

/** The weight of the most specific range that matches; 0 when none does. */
function weightOf(mediaType: string, ranges: readonly MediaRange[]): number {
  const [name = '', ...parameters] = mediaType.split(';')
  const [type, subtype] = name.split('/')
  const fitting = ranges.filter(range => range.parameters.every(parameter => parameters.includes(parameter)))
  const exact = fitting
    .filter(range => range.type === type && range.subtype === subtype)
    .reduce<MediaRange | undefined>(
      (best, range) =>
        best === undefined || range.parameters.length > best.parameters.length ? range : best,
      undefined,
    )
  const ofType = fitting.find(range => range.type === type && range.subtype === '*')
  const any = fitting.find(range => range.type === '*')
  return (exact ?? ofType ?? any)?.weight ?? 0
}

/** @returns an empty list when the member is malformed; the weight is found at any position among the parameters */
function parseMediaRange(member: string): MediaRange[] {
  const [name = '', ...rest] = splitOutsideQuotes(member, ';').map(trimOws)
  const [type = '', subtype = '', ...more] = name.toLowerCase().split('/')
  if (!isToken(type) || !isToken(subtype) || more.length > 0 || (type === '*' && subtype !== '*')) return []
  let weight = 1
  const parameters: string[] = []
  for (const parameter of rest.filter(text => text !== '')) {
    const value = parameter.slice(2)
    if (parameter.slice(0, 2).toLowerCase() !== 'q=') parameters.push(parameter.toLowerCase())
    else if (WEIGHT.test(value)) weight = Number(value)
    else return []
  }
  return [{ type, subtype, parameters, weight }]
}

/** Splits at each separator that is not inside a quoted string (RFC 9110 §5.6.4). */
function splitOutsideQuotes(text: string, separator: ',' | ';'): string[] {
  const pieces: string[] = []
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    if (char === '"') quoted = !quoted
    else if (char === '\\' && quoted) i++
    else if (char === separator && !quoted) {
      pieces.push(text.slice(start, i))
      start = i + 1
    }
  }
  pieces.push(text.slice(start))
  return pieces
}
