/** JSON Pointer: the place of a value in a JSON document (RFC 6901). */
import { isJsonObject, type JsonValue, memberOf } from './json-value.js'

/** Reference tokens, unescaped; none for the whole document. */
export type JsonPointer = readonly string[]

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/
const INDEX = /^(?:0|[1-9]\d{0,9})$/

/** @returns undefined when it is no pointer (RFC 6901 §3) */
export function parseJsonPointer(text: string): JsonPointer | undefined {
  if (!POINTER.test(text)) return undefined
  // In this order, as ~01 is ~1 and not a slash (RFC 6901 §4).
  const tokens = text.split('/').slice(1)
  return tokens.map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** @returns undefined when there is no value at that place */
export function valueAt(document: JsonValue, pointer: JsonPointer): JsonValue | undefined {
  let value: JsonValue | undefined = document
  for (const token of pointer) {
    if (Array.isArray(value)) value = value[parseArrayIndex(token) ?? -1]
    else if (isJsonObject(value)) value = memberOf(value, token)
    else return undefined
  }
  return value
}

/** @returns undefined for anything but digits without leading zeros (RFC 6901 §4); `-` too */
export function parseArrayIndex(token: string): number | undefined {
  return INDEX.test(token) ? Number(token) : undefined
}
