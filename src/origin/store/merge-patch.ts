/** JSON Merge Patch: members that are there replace, null removes, everything else stays (RFC 7396 §2). */
import { isJsonObject, type JsonObject, type JsonValue, memberOf, setMember } from './json-value.js'

/**
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
