/**
 * JSON Patch: a list of operations, applied one after another, all or none (RFC 6902).
 *
 * The target is changed in place, and is of no use when an operation fails: atomicity is for the caller, who has it from
 * parsing a copy for each attempt.
 */
import { type JsonPointer, parseArrayIndex, parseJsonPointer, valueAt } from './json-pointer.js'
import {
  isJsonObject,
  isSameJson,
  type JsonObject,
  type JsonValue,
  memberOf,
  setMember,
} from './json-value.js'
import { cannotApply, malformedPatch } from './patch-errors.js'

export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: JsonPointer; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: JsonPointer }
  | { readonly op: 'move' | 'copy'; readonly path: JsonPointer; readonly from: JsonPointer }

const MAX_OPERATIONS = 10_000

/**
 * @param document a patch document, parsed
 * @throws ProxyError 400 when it is not a list of operations with all their members (RFC 6902 §3, §4)
 */
export function parseJsonPatch(document: JsonValue): JsonPatchOperation[] {
  if (!Array.isArray(document)) throw malformedPatch('a JSON Patch is an array of operations')
  if (document.length > MAX_OPERATIONS) throw malformedPatch(`more than ${MAX_OPERATIONS} operations`)
  return document.map((operation, index) => {
    if (!isJsonObject(operation)) throw malformedPatch(`operation ${index} is not an object`)
    return parseOperation(operation, index)
  })
}

/**
 * @param target is changed
 * @param maxBytes how many bytes of JSON may be copied, as each copy can be twice as long as the one before
 * @returns the document that comes out, which may be another object
 * @throws ProxyError 422 when an operation can not be applied (RFC 6902 §5)
 */
export function applyJsonPatch(
  target: JsonValue,
  operations: readonly JsonPatchOperation[],
  maxBytes: number,
): JsonValue {
  let document = target
  let copied = 0
  for (const [index, operation] of operations.entries()) {
    const fail = (what: string): Error => cannotApply(`operation ${index} (${operation.op}): ${what}`)
    switch (operation.op) {
      case 'add':
        document = add(document, operation.path, operation.value, fail)
        break
      case 'remove':
        document = remove(document, operation.path, fail)
        break
      case 'replace':
        document = replace(document, operation.path, operation.value, fail)
        break
      case 'test':
        if (!isSameJson(existing(document, operation.path, fail), operation.value)) throw fail('not equal')
        break
      case 'move': {
        const { from, path } = operation
        const value = existing(document, from, fail)
        if (isProperPrefix(from, path)) throw fail('from is above path')
        if (from.length === path.length && isPrefix(from, path)) break
        document = add(remove(document, from, fail), path, value, fail)
        break
      }
      case 'copy': {
        const json = JSON.stringify(existing(document, operation.from, fail))
        copied += json.length
        if (copied > maxBytes) throw fail(`copies come to more than ${maxBytes} bytes`)
        document = add(document, operation.path, JSON.parse(json) as JsonValue, fail)
        break
      }
    }
  }
  return document
}

type Failure = (what: string) => Error

function parseOperation(operation: JsonObject, index: number): JsonPatchOperation {
  const op = memberOf(operation, 'op')
  const path = pointerOf(operation, 'path', index)
  switch (op) {
    case 'add':
    case 'replace':
    case 'test': {
      const value = memberOf(operation, 'value')
      if (value === undefined) throw malformedPatch(`operation ${index} has no value`)
      return { op, path, value }
    }
    case 'remove':
      return { op, path }
    case 'move':
    case 'copy':
      return { op, path, from: pointerOf(operation, 'from', index) }
    default:
      throw malformedPatch(
        `operation ${index} has an op that is none of add, remove, replace, move, copy, test`,
      )
  }
}

function pointerOf(operation: JsonObject, name: 'path' | 'from', index: number): JsonPointer {
  const text = memberOf(operation, name)
  const pointer = typeof text === 'string' ? parseJsonPointer(text) : undefined
  if (pointer === undefined) throw malformedPatch(`operation ${index} has no ${name} that is a JSON Pointer`)
  return pointer
}

function add(document: JsonValue, path: JsonPointer, value: JsonValue, fail: Failure): JsonValue {
  const key = path.at(-1)
  if (key === undefined) return value
  const parent = valueAt(document, path.slice(0, -1))
  if (isJsonObject(parent)) setMember(parent, key, value)
  else if (Array.isArray(parent)) {
    const index = key === '-' ? parent.length : parseArrayIndex(key)
    if (index === undefined || index > parent.length) throw fail('no such index')
    parent.splice(index, 0, value)
  } else throw fail('there is nothing that it could be added to')
  return document
}

function remove(document: JsonValue, path: JsonPointer, fail: Failure): JsonValue {
  existing(document, path, fail)
  const key = path.at(-1)
  if (key === undefined) throw fail('nothing would be left')
  const parent = valueAt(document, path.slice(0, -1))
  if (Array.isArray(parent)) parent.splice(Number(key), 1)
  else if (isJsonObject(parent)) delete parent[key]
  return document
}

function replace(document: JsonValue, path: JsonPointer, value: JsonValue, fail: Failure): JsonValue {
  existing(document, path, fail)
  const key = path.at(-1)
  if (key === undefined) return value
  const parent = valueAt(document, path.slice(0, -1))
  if (Array.isArray(parent)) parent[Number(key)] = value
  else if (isJsonObject(parent)) setMember(parent, key, value)
  return document
}

function existing(document: JsonValue, path: JsonPointer, fail: Failure): JsonValue {
  const value = valueAt(document, path)
  if (value === undefined) throw fail('there is no such value')
  return value
}

function isPrefix(prefix: JsonPointer, path: JsonPointer): boolean {
  return prefix.every((token, index) => token === path[index])
}

function isProperPrefix(prefix: JsonPointer, path: JsonPointer): boolean {
  return prefix.length < path.length && isPrefix(prefix, path)
}
