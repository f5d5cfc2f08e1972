/**
 * Applies a patch document to a target: bytes in, bytes out, all or nothing (RFC 5789 §2).
 *
 * Both are parsed as a whole. That takes ten times their size in memory and, with a million members or thousands of
 * operations, a third of a second. So short patches are applied at once, others in a worker thread.
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

/** Maximum bytes of a patch document, and of its target both before and after the patch. */
export const MAX_PATCH_BYTES = 1024 * 1024
export const MAX_PATCH_TARGET_BYTES = 1024 * 1024
/** Maximum bytes of a short patch, document and target together; the worst case takes a few milliseconds. */
const SHORT_BYTES = 32 * 1024

export type PatchKind = 'json-patch' | 'merge-patch'

/** A patch to apply, unparsed. */
export interface PatchJob {
  readonly kind: PatchKind
  readonly target: Uint8Array
  readonly document: Uint8Array
}

/** Whether a patch takes only a few milliseconds. `copy`, even if it is spelled with escapes, can make a document long. */
export function isShort({ kind, target, document }: PatchJob): boolean {
  if (target.length + document.length > SHORT_BYTES) return false
  if (kind === 'merge-patch') return true
  const text = Buffer.from(document.buffer, document.byteOffset, document.length)
  return !text.includes('copy') && !text.includes('\\u')
}

/**
 * Applies a patch.
 * @returns the new content
 * @throws ProxyError 400 for a malformed patch document, 422 if it cannot be applied
 */
export function applyPatch({ kind, target, document }: PatchJob): Buffer {
  const patch = withJsonErrors(malformedPatch, () => {
    const value = parseJson(document)
    return kind === 'json-patch' ? { operations: parseJsonPatch(value) } : { value }
  })
  const text = withJsonErrors(cannotApply, () => {
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
      `the result would have more than ${MAX_PATCH_TARGET_BYTES} bytes, which is the limit for PATCH; use PUT`,
    )
  }
  return content
}

/** Translates the errors of invalid JSON, and of JSON that is nested too deeply for the stack. */
function withJsonErrors<T>(refuse: (what: string) => Error, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof JsonError) throw refuse(error.message)
    if (error instanceof RangeError) throw refuse('nested too deeply')
    throw error
  }
}

/**
 * Applies a JSON Merge Patch: its members replace those of the target, and null removes them (RFC 7396 §2).
 * @param target the parsed target; it is changed
 * @returns the resulting document, which may be another object
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
