/**
 * Invalidation (RFC 9111 §4.4): what a request has changed is not used any more.
 */
import type { FieldSection } from '../http/field-section.js'
import { fieldValues } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { isSameOrigin, resolveReference } from '../http/uri-reference.js'

const NONE: readonly string[] = Object.freeze([])

/**
 * The URIs whose stored responses are forgotten: the target, and what Location and Content-Location name at the same
 * origin. What an answer says of other origins is not believed, or anybody could empty the cache of anybody else.
 * @param method of the request; one that is not known counts as unsafe
 * @param status of the final response: errors have changed nothing
 * @param uri the target, as it is in a cache key
 * @param fields of the response
 */
export function invalidatedUris(
  method: string,
  status: number,
  uri: string,
  fields: FieldSection,
): readonly string[] {
  if (methodProperties(method).safe || status < 200 || status >= 400) return NONE
  const uris = new Set([uri])
  for (const name of ['location', 'content-location']) {
    for (const value of fieldValues(fields.list, name)) {
      const named = resolveReference(value, uri)
      if (named !== undefined && isSameOrigin(named, uri)) uris.add(named)
    }
  }
  return [...uris]
}
