/**
 * Validation (RFC 9111 §4.3): makes conditional requests for stored responses, evaluates those of clients, and updates
 * stored responses by the results.
 */
import { decidePreconditions } from '../http/conditional.js'
import { type FieldSection, fieldSet } from '../http/field-section.js'
import { type Fields, fieldValue, fieldValues, withoutFields } from '../http/fields.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { StoredResponse, usableTag, varyNames } from './freshness.js'
import type { CacheRequest } from './request.js'
import { storedFields, type Times, withoutWithheld } from './storable.js'
import type { StoredHead } from './stored-response.js'
import { selectingFields } from './vary.js'

/** Fields by which a client makes its request conditional, or asks for a part. */
export const CONDITIONS: ReadonlySet<string> = new Set([
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'range',
])
/** Fields that describe the stored content; a response without content does not update them (§3.2). */
const CONTENT_FIELDS: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-md5',
  'content-range',
  'etag',
])
/** Fields that every update replaces or removes: an old value would be wrong relative to the new times (§4.2.3). */
const TIME_FIELDS: ReadonlySet<string> = new Set(['age', 'date'])
/** Representation fields that a 304 does not repeat, as the client already has them (RFC 9110 §15.4.5). */
const REPRESENTATION_FIELDS: ReadonlySet<string> = new Set([
  'content-digest',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-md5',
  'content-range',
  'content-type',
  'digest',
  'repr-digest',
])
const CONDITIONAL = fieldSet('if-none-match', 'if-modified-since')
const LAST_MODIFIED: ReadonlySet<string> = new Set(['last-modified'])

/**
 * The fields of a request that validates a stored response (RFC 9111 §4.3.1): those of the client except its conditions, as
 * the origin may select the representation by any of them.
 * @param response a response that has a validator
 */
export function conditionalRequest(fields: Fields, response: StoredResponse): Fields {
  const conditional = [...withoutFields(fields, CONDITIONS)]
  const { etagText, lastModifiedText } = response
  if (etagText !== undefined) conditional.push('If-None-Match', etagText)
  if (lastModifiedText !== undefined) conditional.push('If-Modified-Since', lastModifiedText)
  return conditional
}

/**
 * Whether the client's copy is the stored response, so that it gets a 304 (§4.3.2). If-Modified-Since is compared with Date
 * if there is no Last-Modified.
 */
export function answerFor(
  request: CacheRequest,
  response: StoredResponse,
  now: number,
): 'whole' | 'not-modified' {
  const { status } = response
  if (status < 200 || status > 299 || !request.fields.hasAny(CONDITIONAL)) return 'whole'
  const decision = decidePreconditions({
    method: request.method,
    fields: request.fields.list,
    current: { etag: response.etag, lastModifiedMs: response.lastModifiedMs ?? response.dateMs },
    now,
  })
  return decision === 'not_modified' ? 'not-modified' : 'whole'
}

/**
 * The stored head, updated by a 304 to the request of `conditionalRequest` (§4.3.4).
 *
 * That request has a single entity tag, and the 304 is about that one, even if it has another ETag itself: origins that
 * compress responses on the fly send the tag of another variant there. If there is only a date, it must be the same.
 * @param request the fields of the client's request, which select the response from now on if its Vary has changed
 * @returns undefined if the 304 is about another response
 */
export function freshened(
  stored: StoredHead,
  notModified: ReceivedHead,
  times: Times,
  request?: FieldSection,
): StoredHead | undefined {
  if (!isSelectedBy(stored, notModified)) return undefined
  return updated(stored, notModified, times, request)
}

function isSelectedBy(stored: StoredHead, notModified: ReceivedHead): boolean {
  if (usableTag(fieldValues(stored.fields, 'etag')) !== undefined) return true
  const modified = fieldValue(notModified.fields.list, 'last-modified')
  return modified === undefined || modified === fieldValue(stored.fields, 'last-modified')
}

/**
 * The stored head, updated by a response to HEAD (§4.3.5), whose fields are those of a response to GET.
 * @param length length of the stored content in bytes
 * @returns `stored` itself if the response has another status than 200; `invalid` if it is about other content
 */
export function afterHead(
  stored: StoredHead,
  head: ReceivedHead,
  times: Times,
  length: number,
): StoredHead | 'invalid' {
  if (head.status !== 200 || (stored.status !== 200 && stored.range === undefined)) return stored
  const storedLength = stored.range === undefined ? length : stored.completeLength
  const differs = storedLength !== undefined && (head.contentLength ?? storedLength) !== storedLength
  if (differs || hasOther(stored, head, 'etag') || hasOther(stored, head, 'last-modified')) return 'invalid'
  return updated(stored, head, times, undefined)
}

function hasOther(stored: StoredHead, head: ReceivedHead, name: string): boolean {
  const values = fieldValues(head.fields.list, name)
  return values.length > 0 && values.join() !== fieldValues(stored.fields, name).join()
}

/** Replaces stored fields by received ones with the same name (§3.2). */
function updated(
  stored: StoredHead,
  head: ReceivedHead,
  times: Times,
  request: FieldSection | undefined,
): StoredHead {
  const received = withoutFields(storedFields(head, times), CONTENT_FIELDS)
  const replaced = new Set(TIME_FIELDS)
  for (let i = 0; i < received.length; i += 2) replaced.add((received[i] as string).toLowerCase())
  const fields = [...withoutFields(stored.fields, replaced), ...received]
  const { requestedAt, respondedAt } = times
  const merged: StoredHead = { ...stored, fields, requestedAt, respondedAt }
  const updatedHead = withSelecting(merged, stored, request)
  return withoutWithheld(new StoredResponse(updatedHead))
}

/** Updates the selecting fields if Vary has changed. Without the request they cannot be known, and match no request. */
function withSelecting(
  merged: StoredHead,
  stored: StoredHead,
  request: FieldSection | undefined,
): StoredHead {
  if (request === undefined) return merged
  const vary = fieldValues(merged.fields, 'vary')
  const isSame = varyNames(vary).join() === varyNames(fieldValues(stored.fields, 'vary')).join()
  return isSame ? merged : { ...merged, selecting: selectingFields(request, vary) }
}

/** The fields of a 304 that is made from a stored response (RFC 9110 §15.4.5). It needs no Last-Modified if it has an ETag. */
export function notModifiedFields(fields: Fields): Fields {
  const kept = withoutFields(fields, REPRESENTATION_FIELDS)
  return fieldValue(fields, 'etag') === undefined ? kept : withoutFields(kept, LAST_MODIFIED)
}
