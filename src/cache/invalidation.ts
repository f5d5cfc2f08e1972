/**
 * Invalidation: stored responses for a resource that a request has changed are not used any more (RFC 9111 §4.4).
 */
import type { FieldSection } from '../http/field-section.js'
import { fieldValues } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { isSameOrigin, resolveReference } from '../http/uri-reference.js'

const NONE: readonly string[] = Object.freeze([])

/**
 * The URIs whose stored responses are invalidated: the target, and those that Location and Content-Location name, if they
 * have the same origin. Otherwise any origin could invalidate the responses of others.
 * @param method the method of the request; an unknown one counts as unsafe
 * @param status the status of the final response; an error has changed nothing
 * @param uri the target, as in a cache key
 * @param fields the fields of the response
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
