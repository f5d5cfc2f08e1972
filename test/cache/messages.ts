/** Requests, responses and stored responses for the tests of the cache's decisions. */
import { serializeHttpDate } from '../../src/http/date.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import type { ReceivedHead } from '../../src/http1/response-reader.js'
import { StoredResponse } from '../../src/cache/freshness.js'
import type { CacheRequest } from '../../src/cache/request.js'
import { decideStorable, storedFields } from '../../src/cache/storable.js'
import type { StoredHead } from '../../src/cache/stored-response.js'
import { selectingFields } from '../../src/cache/vary.js'

/** A time in whole seconds, like a Date. */
export const NOW = Date.UTC(2026, 2, 1, 12)
export const TIMES = { requestedAt: NOW, respondedAt: NOW }
export const URI = 'http://example.com:80/a'

/** An HTTP-date so many seconds from now. */
export function date(seconds = 0): string {
  return serializeHttpDate(NOW + seconds * 1000)
}

export function request(fields: Fields = [], method = 'GET', hasContent = false): CacheRequest {
  return { method, key: { partition: 'p', uri: URI }, fields: FieldSection.of(fields), hasContent }
}

/** A received head; `Content-Length` is parsed as by the reader of responses. */
export function received(fields: Fields = [], status = 200): ReceivedHead {
  const section = FieldSection.of(fields)
  const length = section.value(11)
  return {
    minor: 1,
    status,
    reason: 'R',
    fields: section,
    contentLength: length === undefined ? undefined : Number(length),
  }
}

/** The head that would be stored, whether or not it may be. */
export function head(fields: Fields = [], more: Partial<StoredHead> = {}, asked: Fields = []): StoredHead {
  const response = received(fields, more.status)
  const vary = response.fields.list.filter(
    (_, i, list) => i % 2 === 1 && list[i - 1]?.toLowerCase() === 'vary',
  )
  return {
    method: 'GET',
    status: 200,
    reason: 'R',
    minor: 1,
    fields: storedFields(response, TIMES),
    selecting: selectingFields(FieldSection.of(asked), vary),
    ...TIMES,
    ...more,
  }
}

export function stored(
  fields: Fields = [],
  more: Partial<StoredHead> = {},
  asked: Fields = [],
): StoredResponse {
  return new StoredResponse(head(fields, more, asked))
}

/** `store`, or why it is not stored. */
export function verdict(asked: CacheRequest, response: ReceivedHead): string {
  const decision = decideStorable(asked, response, TIMES)
  return decision.kind === 'store' ? 'store' : decision.why
}

/** Lines of random bytes with the names of fields that caching depends on. */
export const FIELD_NAMES = [
  'Age',
  'Authorization',
  'Cache-Control',
  'CDN-Cache-Control',
  'Content-Language',
  'Content-Location',
  'Content-Length',
  'Content-Range',
  'Cookie',
  'Date',
  'ETag',
  'Expires',
  'If-Match',
  'If-Modified-Since',
  'If-None-Match',
  'If-Range',
  'Last-Modified',
  'Location',
  'Pragma',
  'Range',
  'Set-Cookie',
  'Upgrade',
  'Vary',
  'Accept-Language',
  'X-Other',
] as const
