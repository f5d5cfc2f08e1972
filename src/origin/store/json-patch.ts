/**
 * JSON Patch: a list of operations that are applied in order, all or none (RFC 6902).
 *
 * The package rfc6902 applies them, but each operation is checked here first. The package takes inherited members for
 * members of the document, loses those named `__proto__`, empties an array if its `length` is replaced, resolves the
 * target of a move before the value is removed, and compares long lists in cubic time.
 *
 * If an operation fails, the target is left half changed. The caller ensures atomicity by parsing a copy for each attempt.
 */
import { applyPatch, type Operation, Pointer } from 'rfc6902'
import { cannotApply, malformedPatch } from './answers.js'
import {
  isJsonObject,
  isSameJson,
  type JsonObject,
  type JsonValue,
  mapNames,
  memberOf,
} from './json-value.js'

/** An operation whose member names have been escaped by `hide`. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: JsonPointer; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: JsonPointer }
  | { readonly op: 'move' | 'copy'; readonly path: JsonPointer; readonly from: JsonPointer }

const MAX_OPERATIONS = 10_000
/** Array items that a patch may move in total: each insertion or removal moves the items after it. */
const MAX_MOVED_ITEMS = 100_000_000

/** Names that rfc6902 ignores in pointers or drops from values, after any number of the marks that `hide` adds. */
const HIDDEN = /^\0*(?:__proto__|constructor|prototype)$/
/** The document is held as a member of another object, so that it can be replaced as a whole like any value. */
const ROOT = 'document'
/** The member that holds a value while it is moved: removed and not yet added (RFC 6902 §4.4). */
const MOVING = 'moving'

/**
 * @param document a parsed patch document
 * @throws ProxyError 400 if it is not a list of operations with all their members (RFC 6902 §3, §4)
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
 * @param target the parsed target; it is changed
 * @param maxBytes bytes of JSON that may be copied in total, as each copy can be twice as long as the one before
 * @returns the resulting document
 * @throws ProxyError 422 if an operation cannot be applied (RFC 6902 §5)
 */
export function applyJsonPatch(
  target: JsonValue,
  operations: readonly JsonPatchOperation[],
  maxBytes: number,
): JsonValue {
  const holder: JsonObject = { [ROOT]: mapNames(target, hide) }
  let copied = 0
  let moved = 0
  for (const [index, operation] of operations.entries()) {
    const fail = (what: string): Error => cannotApply(`operation ${index} (${operation.op}): ${what}`)
    const path = [ROOT, ...operation.path]
    const countItems = (place: JsonPointer): void => {
      const parent = valueAt(holder, place.slice(0, -1))
      if (Array.isArray(parent))
        moved += parent.length - (parseArrayIndex(place.at(-1) ?? '') ?? parent.length)
      if (moved > MAX_MOVED_ITEMS) throw fail('the arrays are too long for this number of operations')
    }
    switch (operation.op) {
      case 'add':
        checkPlace(holder, path, fail)
        countItems(path)
        apply(holder, { op: 'add', path: textOf(path), value: operation.value })
        break
      case 'remove':
        if (operation.path.length === 0) throw fail('the whole document cannot be removed')
        existing(holder, path, fail)
        countItems(path)
        apply(holder, { op: 'remove', path: textOf(path) })
        break
      case 'replace':
        existing(holder, path, fail)
        apply(holder, { op: 'replace', path: textOf(path), value: operation.value })
        break
      case 'test':
        if (!isSameJson(existing(holder, path, fail), operation.value)) throw fail('not equal')
        break
      case 'move': {
        const from = [ROOT, ...operation.from]
        existing(holder, from, fail)
        if (isProperPrefix(from, path)) throw fail('from is a parent of path')
        countItems(from)
        apply(holder, { op: 'move', from: textOf(from), path: textOf([MOVING]) })
        checkPlace(holder, path, fail)
        countItems(path)
        apply(holder, { op: 'move', from: textOf([MOVING]), path: textOf(path) })
        break
      }
      case 'copy': {
        const from = [ROOT, ...operation.from]
        copied += Buffer.byteLength(JSON.stringify(existing(holder, from, fail)))
        if (copied > maxBytes) throw fail(`the copies have more than ${maxBytes} bytes`)
        checkPlace(holder, path, fail)
        countItems(path)
        apply(holder, { op: 'copy', from: textOf(from), path: textOf(path) })
        break
      }
    }
  }
  return mapNames(holder[ROOT] as JsonValue, show)
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
      return { op, path, value: mapNames(value, hide) }
    }
    case 'remove':
      return { op, path }
    case 'move':
    case 'copy':
      return { op, path, from: pointerOf(operation, 'from', index) }
    default:
      throw malformedPatch(
        `operation ${index} has an op that is not add, remove, replace, move, copy or test`,
      )
  }
}

function pointerOf(operation: JsonObject, name: 'path' | 'from', index: number): JsonPointer {
  const text = memberOf(operation, name)
  const pointer = typeof text === 'string' ? parseJsonPointer(text) : undefined
  if (pointer === undefined)
    throw malformedPatch(`operation ${index} has no ${name}, or it is not a JSON Pointer`)
  return pointer.map(hide)
}

function hide(name: string): string {
  return HIDDEN.test(name) ? `\0${name}` : name
}

function show(name: string): string {
  return HIDDEN.test(name) ? name.slice(1) : name
}

/** Applies an operation that was checked. */
function apply(holder: JsonObject, operation: Operation): void {
  const [error] = applyPatch(holder, [operation])
  if (error !== null) throw error ?? new Error('an operation was not applied')
}

function textOf(pointer: JsonPointer): string {
  return new Pointer(['', ...pointer]).toString()
}

function existing(holder: JsonObject, path: JsonPointer, fail: Failure): JsonValue {
  const value = valueAt(holder, path)
  if (value === undefined) throw fail('there is no such value')
  return value
}

/** Checks that a value can be added at a path: as a member, before an array item, or after the last one. */
function checkPlace(holder: JsonObject, path: JsonPointer, fail: Failure): void {
  const parent = valueAt(holder, path.slice(0, -1))
  if (isJsonObject(parent)) return
  if (!Array.isArray(parent)) throw fail('the parent is not an object or an array')
  const key = path.at(-1) ?? ''
  const index = key === '-' ? parent.length : parseArrayIndex(key)
  if (index === undefined || index > parent.length) throw fail('no such index')
}

function isProperPrefix(prefix: JsonPointer, path: JsonPointer): boolean {
  return prefix.length < path.length && prefix.every((token, index) => token === path[index])
}

/** Unescaped reference tokens; empty for the whole document. */
export type JsonPointer = readonly string[]

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/
const INDEX = /^(?:0|[1-9]\d{0,9})$/

/**
 * Parses a JSON Pointer, which identifies a value in a JSON document (RFC 6901).
 * @returns undefined if the syntax is invalid (RFC 6901 §3)
 */
export function parseJsonPointer(text: string): JsonPointer | undefined {
  if (!POINTER.test(text)) return undefined
  // The order matters: ~01 is ~1, not a slash (RFC 6901 §4).
  const tokens = text.split('/').slice(1)
  return tokens.map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** @returns undefined if there is no such value */
export function valueAt(document: JsonValue, pointer: JsonPointer): JsonValue | undefined {
  let value: JsonValue | undefined = document
  for (const token of pointer) {
    if (Array.isArray(value)) value = value[parseArrayIndex(token) ?? -1]
    else if (isJsonObject(value)) value = memberOf(value, token)
    else return undefined
  }
  return value
}

/** @returns undefined for anything but digits without leading zeros (RFC 6901 §4), for `-` as well */
export function parseArrayIndex(token: string): number | undefined {
  return INDEX.test(token) ? Number(token) : undefined
}
