/**
 * If-Range: whether Range still applies to the current representation (RFC 9110 §13.1.5).
 *
 * It applies when a strong validator matches exactly. Otherwise, also when the value is malformed, the whole
 * representation is sent: a file assembled from parts of two versions would be corrupt.
 */
import type { Validators } from './conditional.js'
import { serializeHttpDate } from './date.js'
import { isStrongMatch, parseEntityTag } from './etag.js'
import { type Fields, fieldValues } from './fields.js'

/**
 * A date must be identical to the Last-Modified value that would be sent, and is a strong validator once its second has
 * passed. Whether another version was sent in that second is for the client to check: it may use a date only if the
 * accompanying Date was later (RFC 9110 §8.8.2.2).
 * @param now milliseconds since the epoch
 * @returns true when there is no If-Range; false means that Range is ignored
 * @see RFC 9110 §13.1.5
 */
export function rangeApplies(fields: Fields, current: Validators, now: number): boolean {
  const values = fieldValues(fields, 'if-range')
  const [value] = values
  if (value === undefined) return true
  if (values.length > 1) return false
  const tag = parseEntityTag(value)
  if (tag !== undefined) return current.etag !== undefined && isStrongMatch(tag, current.etag)
  const modified = current.lastModifiedMs
  if (modified === undefined || value !== serializeHttpDate(modified)) return false
  return Math.floor(modified / 1000) < Math.floor(now / 1000)
}
