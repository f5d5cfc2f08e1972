/**
 * If-Range: whether the Range beside it still fits the representation that there is (RFC 9110 §13.1.5).
 *
 * It does when a strong validator is exactly the same. In every other case, a malformed value among them, the whole
 * representation is sent: parts of two versions put together are a file that never was.
 */
import type { Validators } from './conditional.js'
import { serializeHttpDate } from './date.js'
import { isStrongMatch, parseEntityTag } from './etag.js'
import { type Fields, fieldValues } from './fields.js'

/**
 * A date is compared letter by letter with the Last-Modified that is sent, and is strong once the second that it names
 * is over. That no other version was sent in that same second is for the client to know, who may only use a date when
 * the Date that came with it was later (RFC 9110 §8.8.2.2).
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
