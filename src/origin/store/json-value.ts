/**
 * JSON as patches see it: read strictly, and its objects read and written as plain tables (RFC 8259).
 *
 * `__proto__` and `constructor` are member names like any other. They are read as own members only and never assigned
 * to, since in JavaScript an assignment to the one would change what the object is.
 */

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject
export interface JsonObject {
  [name: string]: JsonValue
}

/** What follows goes down into a value by calling itself, and how deep a stack is depends on the Node that runs. */
const MAX_DEPTH = 500

/** What is no JSON, is nested too deeply, or would lose one of its numbers or members. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
}

/**
 * @throws JsonError when it is not JSON in UTF-8, is nested too deeply, has a number that a number of 64 bits does not
 * hold, or an object with two members of one name (RFC 8259 §4)
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
  if (!exact) throw new JsonError('a number can not be kept exactly')
  if (members > 0 && countMembers(value) < members)
    throw new JsonError('an object has two members of one name')
  return value
}

/** @throws JsonError when it is nested too deeply to be parsed again */
export function serializeJson(value: JsonValue): string {
  const text = JSON.stringify(value)
  checkDepth(measureJson(text).depth)
  return text
}

function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) throw new JsonError(`nested more than ${MAX_DEPTH} deep`)
}

/** Of all objects in a value. */
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

/** Own members only. */
export function memberOf(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

export function setMember(object: JsonObject, name: string, value: JsonValue): void {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
}

/**
 * Gives each member of an object, however deep, the name that is made of its own.
 * @param value is changed
 * @returns the value, another object where its own members got other names
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

/** Equality of RFC 6902 §4.6: of numbers by value, of objects without regard to order. */
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
  /** How deep lists and objects stand in each other. */
  readonly depth: number
  readonly members: number
  /** Whether all numbers are written out again with the value that they had. */
  readonly exact: boolean
}

/** So many digits a number of 64 bits holds, whatever they are, between these values. */
const SURE_DIGITS = 15
const SMALLEST_SURE = 1e-307
const LARGEST_SURE = 1e308
/** In a sure number of so many characters no exponent leads out of there. */
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
 * What JSON.parse does not tell of a text: how deep it is nested, how many members its objects have when repeated names
 * count each time, and whether a number in it would come out as another one (RFC 8259 §4, §6, §9).
 *
 * One pass over the characters, and no allocation but for the few numbers that have to be compared, since a proxy that
 * reads one document does nothing else meanwhile.
 * @param text that JSON.parse takes
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

/** @param start where the opening quote stands */
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

/** A number in the one spelling that there is of its value: digits with no zeros around them, and their exponent. */
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
