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

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
/** So many digits a number of 64 bits holds, whatever they are. */
const SURE_DIGITS = 15

/** What follows goes down into a value by calling itself, and how deep a stack is depends on the Node that runs. */
const MAX_DEPTH = 500

/** The bytes are no JSON, are nested too deeply, or hold a number that would come out as another one. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
}

/** @throws JsonError when it is not JSON in UTF-8, is nested too deeply, or has a number that a number of 64 bits does not hold */
export function parseJson(bytes: Uint8Array): JsonValue {
  let text: string
  let value: JsonValue
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    value = JSON.parse(text) as JsonValue
  } catch (error) {
    throw new JsonError('not JSON', { cause: error })
  }
  if (depthOf(text) > MAX_DEPTH) throw new JsonError(`nested more than ${MAX_DEPTH} deep`)
  if (!numbersOf(text).every(isKept)) throw new JsonError('a number can not be kept exactly')
  return value
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

/** A copy, in which each member of an object, however deep, has the name that is made of its own. */
export function mapNames(value: JsonValue, rename: (name: string) => string): JsonValue {
  if (Array.isArray(value)) return value.map(item => mapNames(item, rename))
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [rename(name), mapNames(member, rename)]),
  )
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

/** How deep lists and objects in a text that is JSON stand in each other. */
function depthOf(text: string): number {
  let depth = 0
  let most = 0
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') at = endOfString(text, at)
    else if (char === '[' || char === '{') most = Math.max(most, ++depth)
    else if (char === ']' || char === '}') depth--
  }
  return most
}

/** The numbers in a text that is JSON, as they stand there. */
function numbersOf(text: string): string[] {
  const number = new RegExp(NUMBER)
  const found: string[] = []
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string
    if (char === '"') at = endOfString(text, at)
    else if (char === '-' || (char >= '0' && char <= '9')) {
      number.lastIndex = at
      const literal = number.exec(text)?.[0] ?? char
      found.push(literal)
      at += literal.length - 1
    }
  }
  return found
}

/** @param start where the opening quote stands */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}

/** Whether a number is written out again as the same one. */
function isKept(literal: string): boolean {
  const mantissa = literal.replace(/[eE].*$/, '').replace(/[-.]/g, '')
  const value = Number(literal)
  if (!Number.isFinite(value) || (value === 0 && /[1-9]/.test(mantissa))) return false
  return mantissa.replace(/^0+/, '').length <= SURE_DIGITS || JSON.stringify(value) === literal
}
