/**
 * JSON values for patches: strict parsing, and access to members by any name (RFC 8259).
 *
 * `__proto__` and `constructor` are ordinary member names. Members are read as own properties only and never set by
 * assignment, as an assignment to `__proto__` would change the prototype of the object.
 */

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject
export interface JsonObject {
  [name: string]: JsonValue
}

/** Maximum nesting: the functions here are recursive, and the size of the stack depends on Node. */
const MAX_DEPTH = 500

/** The text is not JSON, is nested too deeply, or would lose a number or a member when parsed. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
}

/**
 * @throws JsonError if it is not JSON in UTF-8, is nested too deeply, has a number that a double cannot represent exactly,
 *   or has an object with two members of the same name (RFC 8259 §4)
 */
export function parseJson(bytes: Uint8Array): JsonValue {
  let text: string
  let value: JsonValue
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    value = JSON.parse(text) as JsonValue
  } catch (error) {
    throw new JsonError('not JSON', { cause: error })
  }
  const { depth, members, exact } = measureJson(text)
  checkDepth(depth)
  if (!exact) throw new JsonError('a number cannot be represented exactly')
  if (members > 0 && countMembers(value) < members)
    throw new JsonError('an object has two members of the same name')
  return value
}

/** @throws JsonError if it is nested too deeply to be parsed again */
export function serializeJson(value: JsonValue): string {
  const text = JSON.stringify(value)
  checkDepth(measureJson(text).depth)
  return text
}

function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) throw new JsonError(`nested more than ${MAX_DEPTH} levels deep`)
}

/** Counts the members of all objects in a value. */
function countMembers(value: JsonValue): number {
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') count += countMembers(item)
  } else if (isJsonObject(value)) {
    const names = Object.keys(value)
    count = names.length
    for (const name of names) {
      const member = value[name] as JsonValue
      if (typeof member === 'object') count += countMembers(member)
    }
  }
  return count
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value of an own member; undefined if there is none. */
export function memberOf(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

export function setMember(object: JsonObject, name: string, value: JsonValue): void {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
}

/**
 * Renames the members of all objects in a value.
 * @param value the value; it is changed
 * @returns the same value, or another object if its own members were renamed
 */
export function mapNames(value: JsonValue, rename: (name: string) => string): JsonValue {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const item = value[index] as JsonValue
      if (typeof item === 'object') value[index] = mapNames(item, rename)
    }
    return value
  }
  if (!isJsonObject(value)) return value
  let isRenamed = false
  for (const name of Object.keys(value)) {
    const member = value[name] as JsonValue
    const mapped = mapNames(member, rename)
    if (mapped !== member) setMember(value, name, mapped)
    isRenamed ||= rename(name) !== name
  }
  if (!isRenamed) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [rename(name), member]))
}

/** Equality according to RFC 6902 §4.6: numbers are compared by value, objects regardless of the order of members. */
export function isSameJson(a: JsonValue, b: JsonValue): boolean {
  if (a === b) return true
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false
    return a.every((item, index) => isSameJson(item, b[index] as JsonValue))
  }
  if (!isJsonObject(a) || !isJsonObject(b)) return false
  const names = Object.keys(a)
  if (names.length !== Object.keys(b).length) return false
  return names.every(name => {
    const other = memberOf(b, name)
    return other !== undefined && isSameJson(a[name] as JsonValue, other)
  })
}

export interface JsonMeasures {
  /** How deep arrays and objects are nested. */
  readonly depth: number
  /** Members of all objects, including those with a repeated name. */
  readonly members: number
  /** Whether all numbers keep their value when they are parsed and serialized. */
  readonly exact: boolean
}

/** A double represents any decimal number with this many digits, if its magnitude is between these two. */
const SURE_DIGITS = 15
const SMALLEST_SURE = 1e-307
const LARGEST_SURE = 1e308
/** An exponent of at most this many characters keeps such a number in that range. */
const LONGEST_SURE_EXPONENT = 'e99'.length

const QUOTE = 0x22
const PLUS = 0x2b
const MINUS = 0x2d
const DOT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const UPPER_E = 0x45
const OPENING_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSING_BRACKET = 0x5d
const LOWER_E = 0x65
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d

/**
 * Finds out what JSON.parse does not report: how deep a text is nested, how many members its objects have including
 * repeated names, and whether a number would change its value (RFC 8259 §4, §6, §9).
 *
 * It makes one pass over the characters and allocates only for the few numbers that must be compared, because the event
 * loop is blocked meanwhile.
 * @param text valid JSON
 */
export function measureJson(text: string): JsonMeasures {
  let nested = 0
  let depth = 0
  let members = 0
  let exact = true
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COLON) members++
    else if (code === OPENING_BRACKET || code === OPENING_BRACE) {
      nested++
      if (nested > depth) depth = nested
    } else if (code === CLOSING_BRACKET || code === CLOSING_BRACE) nested--
    else if (isDigit(code) || code === MINUS) {
      const end = endOfNumber(text, at)
      exact &&= isExact(text, at, end)
      at = end - 1
    }
  }
  return { depth, members, exact }
}

/** @param start the position of the opening quote */
function endOfString(text: string, start: number): number {
  let at = start + 1
  for (let code = text.charCodeAt(at); code !== QUOTE; code = text.charCodeAt(at)) {
    at += code === BACKSLASH ? 2 : 1
  }
  return at
}

function endOfNumber(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && isOfNumber(text.charCodeAt(at))) at++
  return at
}

function isOfNumber(code: number): boolean {
  return isDigit(code) || code === DOT || isExponentMark(code) || code === MINUS || code === PLUS
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}

function isExponentMark(code: number): boolean {
  return code === LOWER_E || code === UPPER_E
}

function isExact(text: string, start: number, end: number): boolean {
  let mark = start
  while (mark < end && !isExponentMark(text.charCodeAt(mark))) mark++
  const hasSureDigits = mark - start <= SURE_DIGITS
  if (hasSureDigits && end - mark <= LONGEST_SURE_EXPONENT) return true
  const literal = text.slice(start, end)
  const value = Number(literal)
  const size = Math.abs(value)
  if (hasSureDigits && size >= SMALLEST_SURE && size <= LARGEST_SURE) return true
  const written = String(value)
  return written === literal || (Number.isFinite(value) && decimalOf(literal) === decimalOf(written))
}

/** The canonical form of a number: its digits without leading and trailing zeros, and an exponent. */
function decimalOf(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.split(/[eE]/)
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = whole + fraction
  let first = 0
  while (first < digits.length && digits.charCodeAt(first) === ZERO) first++
  if (first === digits.length) return '0'
  let end = digits.length
  while (digits.charCodeAt(end - 1) === ZERO) end--
  const sign = literal.startsWith('-') ? '-' : ''
  return `${sign}${digits.slice(first, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
