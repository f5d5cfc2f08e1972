/**
 * What JSON.parse does not tell of a text: how deep it is nested, how many members its objects have when repeated names
 * count each time, and whether a number in it would come out as another one (RFC 8259 §4, §6, §9).
 *
 * One pass over the characters, and no allocation but for the few numbers that have to be compared, since a proxy that
 * reads one document does nothing else meanwhile.
 */

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

/** @param text that JSON.parse takes */
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
