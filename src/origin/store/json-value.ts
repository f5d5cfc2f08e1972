/**
 * JSON as patches see it: read strictly, and its objects read and written as plain tables (RFC 8259).
 *
 * `__proto__` and `constructor` are member names like any other. They are read as own members only and never assigned
 * to, since in JavaScript an assignment to the one would change what the object is.
 */

import { measureJson } from './json-text.js'

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
