/**
 * Validation (RFC 9111 §4.3): asking the origin whether what is stored is still current, answering clients who ask the
 * same of the cache, and what follows from the answers.
 */
import { decidePreconditions } from '../http/conditional.js'
import { type FieldSection, fieldSet } from '../http/field-section.js'
import { type Fields, fieldValue, fieldValues, withoutFields } from '../http/fields.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { StoredResponse, varyNames } from './freshness.js'
import type { CacheRequest } from './request.js'
import { storedFields, type Times, withoutWithheld } from './storable.js'
import type { StoredHead } from './stored-response.js'
import { selectingFields } from './vary.js'

/** What a client asks of its own copy, and of a part. */
export const CONDITIONS: ReadonlySet<string> = new Set([
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'range',
])
/** What describes the stored content, which a response without content says nothing new of (§3.2). */
const OF_THE_CONTENT: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-md5',
  'content-range',
  'etag',
])
/** What is told anew each time; without it the old value would count from the new times (§4.2.3). */
const OF_THE_TIME: ReadonlySet<string> = new Set(['age', 'date'])
/** What a 304 does not repeat: its client has it (RFC 9110 §15.4.5). */
const OF_THE_REPRESENTATION: ReadonlySet<string> = new Set([
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
const ASKS = fieldSet('if-none-match', 'if-modified-since')
const LAST_MODIFIED: ReadonlySet<string> = new Set(['last-modified'])

/**
 * The fields of a request that validates what is stored (RFC 9111 §4.3.1): all of the client's, as the origin may
 * select by any of them, but for its own conditions.
 * @param response one that is validatable
 */
export function conditionalRequest(fields: Fields, response: StoredResponse): Fields {
  const conditional = [...withoutFields(fields, CONDITIONS)]
  const { etagText, lastModifiedText } = response
  if (etagText !== undefined) conditional.push('If-None-Match', etagText)
  if (lastModifiedText !== undefined) conditional.push('If-Modified-Since', lastModifiedText)
  return conditional
}

/**
 * Whether a client has what is stored already (§4.3.2). Without a Last-Modified it is Date that If-Modified-Since is
 * compared with.
 */
export function answerFor(
  request: CacheRequest,
  response: StoredResponse,
  now: number,
): 'whole' | 'not-modified' {
  const { status } = response
  if (status < 200 || status > 299 || !request.fields.hasAny(ASKS)) return 'whole'
  const decision = decidePreconditions({
    method: request.method,
    fields: request.fields.list,
    current: { etag: response.etag, lastModifiedMs: response.lastModifiedMs ?? response.dateMs },
    now,
  })
  return decision === 'not_modified' ? 'not-modified' : 'whole'
}

/**
 * What is stored once a 304 has said that it is current (§4.3.4).
 *
 * To be asked of a 304 to a request that conditionalRequest has made. It has named one entity tag, and the answer is
 * about that one, whatever tag it has itself: origins that compress on the way out name another variant there. By a
 * date alone the two have to be the same.
 * @param request of the client, whose fields select the response from now on if its Vary has changed
 * @returns undefined when the 304 is about something else
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
  if (new StoredResponse(stored).etagText !== undefined) return true
  const modified = fieldValue(notModified.fields.list, 'last-modified')
  return modified === undefined || modified === fieldValue(stored.fields, 'last-modified')
}

/**
 * What is stored after a response to HEAD (§4.3.5): its fields are those of GET, unless they tell of another content.
 * @param length bytes of content that are stored
 * @returns `stored` itself when the response says nothing about it, as no other status than 200 does
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

/** The stored fields, in place of which come those of the same name that were received (§3.2). */
function updated(
  stored: StoredHead,
  head: ReceivedHead,
  times: Times,
  request: FieldSection | undefined,
): StoredHead {
  const received = withoutFields(storedFields(head, times), OF_THE_CONTENT)
  const replaced = new Set(OF_THE_TIME)
  for (let i = 0; i < received.length; i += 2) replaced.add((received[i] as string).toLowerCase())
  const fields = [...withoutFields(stored.fields, replaced), ...received]
  const { requestedAt, respondedAt } = times
  const merged: StoredHead = { ...stored, fields, requestedAt, respondedAt }
  const updatedHead = withSelecting(merged, stored, request)
  return withoutWithheld(new StoredResponse(updatedHead))
}

/** Another Vary selects by other fields; those of a request that is not known match nothing. */
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

/** The fields of a 304 made of what is stored (RFC 9110 §15.4.5). Last-Modified helps only those who have no ETag. */
export function notModifiedFields(fields: Fields): Fields {
  const kept = withoutFields(fields, OF_THE_REPRESENTATION)
  return fieldValue(fields, 'etag') === undefined ? kept : withoutFields(kept, LAST_MODIFIED)
}
