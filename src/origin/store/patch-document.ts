/**
 * A patch document applied to a document: bytes in, bytes out, all of it or nothing (RFC 5789 §2).
 *
 * Both are parsed as a whole, which takes ten times their size in memory and, with a million members or thousands of
 * operations, a third of a second: short ones are done at once, others in a thread beside the proxy.
 */
import { cannotApply, malformedPatch } from './answers.js'
import { applyJsonPatch, parseJsonPatch } from './json-patch.js'
import {
  isJsonObject,
  JsonError,
  type JsonObject,
  type JsonValue,
  memberOf,
  parseJson,
  serializeJson,
  setMember,
} from './json-value.js'

/** The limits of patch documents, and of what they are for, before and after. */
export const MAX_PATCH_BYTES = 1024 * 1024
export const MAX_PATCH_TARGET_BYTES = 1024 * 1024
/** Of both together; the worst that can be made of it takes a few milliseconds. */
const SHORT_BYTES = 32 * 1024

export type PatchKind = 'json-patch' | 'merge-patch'

/** Documents as they came. */
export interface PatchJob {
  readonly kind: PatchKind
  readonly target: Uint8Array
  readonly document: Uint8Array
}

/** Whether it is done before anybody notices. A copy makes a long document of a short one, however it is spelled. */
export function isShort({ kind, target, document }: PatchJob): boolean {
  if (target.length + document.length > SHORT_BYTES) return false
  if (kind === 'merge-patch') return true
  const text = Buffer.from(document.buffer, document.byteOffset, document.length)
  return !text.includes('copy') && !text.includes('\\u')
}

/**
 * @returns the new content
 * @throws ProxyError 400 for a bad patch document, 422 when it cannot be applied
 */
export function applyPatch({ kind, target, document }: PatchJob): Buffer {
  const patch = shallow(malformedPatch, () => {
    const value = parseJson(document)
    return kind === 'json-patch' ? { operations: parseJsonPatch(value) } : { value }
  })
  const text = shallow(cannotApply, () => {
    const before = parseJson(target)
    return serializeJson(
      'value' in patch
        ? applyMergePatch(before, patch.value)
        : applyJsonPatch(before, patch.operations, MAX_PATCH_TARGET_BYTES),
    )
  })
  const content = Buffer.from(text)
  if (content.length > MAX_PATCH_TARGET_BYTES) {
    throw cannotApply(
      `the result would have more than ${MAX_PATCH_TARGET_BYTES} bytes, which no PATCH takes again; PUT it`,
    )
  }
  return content
}

/** Turns what is no JSON, or JSON nested so deeply that the stack does not hold it, into an answer. */
function shallow<T>(refuse: (what: string) => Error, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof JsonError) throw refuse(error.message)
    if (error instanceof RangeError) throw refuse('nested too deeply')
    throw error
  }
}

/**
 * JSON Merge Patch: members that are there replace, null removes, everything else stays (RFC 7396 §2).
 * @param target is changed
 * @returns the document that comes out, which may be another object
 */
export function applyMergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch
  const merged: JsonObject = isJsonObject(target) ? target : {}
  for (const name of Object.keys(patch)) {
    const value = patch[name] as JsonValue
    if (value === null) delete merged[name]
    else setMember(merged, name, applyMergePatch(memberOf(merged, name), value))
  }
  return merged
}
