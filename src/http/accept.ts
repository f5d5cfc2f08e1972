/**
 * Accept: which of the media types on offer a client would rather have (RFC 9110 §12.5.1).
 *
 * A member that can not be read is left out. Nothing is refused for what a client prefers: when none of the types on
 * offer will do, the caller sends what it sends to those who do not say.
 */
import { type Fields, fieldValues, trimOws } from './fields.js'
import { isToken } from './token.js'

interface MediaRange {
  /** In lower case; `*` for any. */
  readonly type: string
  readonly subtype: string
  /** Whether it has parameters beside the weight, and so asks for something more special than what is on offer. */
  readonly special: boolean
  /** From 0, not acceptable, to 1 (RFC 9110 §12.4.2). */
  readonly weight: number
}

const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * @param offered media types in lower case and without parameters; of those that weigh the same the first wins
 * @returns one of them, or undefined when none is acceptable; the first when there is no Accept,
 *   or none that can be read
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
  const [type, subtype] = mediaType.split('/')
  const plain = ranges.filter(range => !range.special)
  const exact = plain.find(range => range.type === type && range.subtype === subtype)
  const ofType = plain.find(range => range.type === type && range.subtype === '*')
  const any = plain.find(range => range.type === '*')
  return (exact ?? ofType ?? any)?.weight ?? 0
}

/** None for what is malformed. The weight counts wherever among the parameters it stands. */
function parseMediaRange(member: string): MediaRange[] {
  const [name = '', ...parameters] = splitOutsideQuotes(member, ';').map(trimOws)
  const [type = '', subtype = '', ...more] = name.toLowerCase().split('/')
  if (!isToken(type) || !isToken(subtype) || more.length > 0 || (type === '*' && subtype !== '*')) return []
  let weight = 1
  let special = false
  for (const parameter of parameters.filter(text => text !== '')) {
    const value = parameter.slice(2)
    if (parameter.slice(0, 2).toLowerCase() !== 'q=') special = true
    else if (WEIGHT.test(value)) weight = Number(value)
    else return []
  }
  return [{ type, subtype, special, weight }]
}

/** Cuts at each separator that is not inside a quoted string (RFC 9110 §5.6.4). */
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
