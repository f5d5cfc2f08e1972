/**
 * Partial responses: serves ranges of stored responses, and combines stored parts (RFC 9111 §3.3, §3.4; RFC 9110 §14,
 * §15.3.7).
 *
 * Parts are combined only if they have the same strong validator. Otherwise they could be from different versions.
 */
import { FIELD } from '../http/field-section.js'
import { type Fields, fieldValue, fieldValues, withoutFields } from '../http/fields.js'
import { rangeApplies } from '../http/if-range.js'
import { type ByteRange, decideRange, parseContentRange, serializeContentRange } from '../http/range.js'
import { registeredPhrase } from '../http/reason-phrase.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { StoredResponse } from './freshness.js'
import type { CacheRequest } from './request.js'
import type { StoredHead } from './stored-response.js'
import { CONDITIONS } from './validation.js'

/** Which part of the stored content a request gets. */
export type PartDecision =
  /** All stored content, which is the complete representation. */
  | { readonly kind: 'whole' }
  /** 206: the first and the last position in the stored content, and the Content-Range of the response. */
  | { readonly kind: 'part'; readonly first: number; readonly last: number; readonly contentRange: string }
  /** 416. */
  | { readonly kind: 'unsatisfiable'; readonly completeLength: number }
  /** The requested range is not completely stored. */
  | { readonly kind: 'miss' }

const CLOSED_RANGE = /^bytes=(\d{1,15})-(\d{1,15})$/i
const WHOLE: PartDecision = Object.freeze({ kind: 'whole' })
const MISS: PartDecision = Object.freeze({ kind: 'miss' })

/**
 * @param response a stored response that may be used for the request
 * @param length bytes of stored content
 * @param now milliseconds since the epoch
 */
export function decidePart(
  request: CacheRequest,
  response: StoredResponse,
  length: number,
  now: number,
): PartDecision {
  const { range } = response
  const otherwise = range === undefined ? WHOLE : MISS
  if (!request.fields.has(FIELD.range) || request.method !== 'GET') return otherwise
  if (range === undefined && response.status !== 200) return WHOLE
  const { list } = request.fields
  if (!rangeApplies(list, response, now)) return otherwise
  return range === undefined ? partOfWhole(list, length) : partOfPart(list, response, range, length)
}

function partOfWhole(fields: Fields, length: number): PartDecision {
  const decision = decideRange('GET', fields, length)
  switch (decision.kind) {
    case 'single': {
      const { first, last } = decision.range
      return { kind: 'part', first, last, contentRange: serializeContentRange(decision.range, length) }
    }
    case 'unsatisfiable':
      return { kind: 'unsatisfiable', completeLength: length }
    case 'full':
    case 'multipart':
      return WHOLE
  }
}

function partOfPart(
  fields: Fields,
  response: StoredResponse,
  range: ByteRange,
  length: number,
): PartDecision {
  const { completeLength } = response
  const decision =
    completeLength === undefined ? closedRange(fields) : decideRange('GET', fields, completeLength)
  if (decision.kind === 'unsatisfiable' && completeLength !== undefined) {
    return { kind: 'unsatisfiable', completeLength }
  }
  if (decision.kind !== 'single') return MISS
  const [first, last] = [decision.range.first - range.first, decision.range.last - range.first]
  if (first < 0 || last >= length) return MISS
  const { first: from, last: to } = decision.range
  return { kind: 'part', first, last, contentRange: `bytes ${from}-${to}/${completeLength ?? '*'}` }
}

/** Parses a range with both ends. If the complete length is unknown, no other range has a known position. */
function closedRange(fields: Fields): { kind: 'single'; range: ByteRange } | { kind: 'full' } {
  const [value = '', ...more] = fieldValues(fields, 'range')
  const match = more.length === 0 ? CLOSED_RANGE.exec(value) : null
  if (match === null) return { kind: 'full' }
  const range = { first: Number(match[1]), last: Number(match[2]) }
  return range.first <= range.last ? { kind: 'single', range } : { kind: 'full' }
}

/** The union of two ranges that overlap or adjoin; undefined if there is a gap between them (RFC 9111 §3.4). */
export function joined(a: ByteRange, b: ByteRange): ByteRange | undefined {
  if (a.first > b.last + 1 || b.first > a.last + 1) return undefined
  return { first: Math.min(a.first, b.first), last: Math.max(a.last, b.last) }
}

/**
 * Whether a received part belongs to the same representation as the stored one (§3.4): both have the same strong
 * validator, and their complete lengths do not contradict each other.
 */
export function mayCombine(stored: StoredHead, head: ReceivedHead): boolean {
  if (head.status !== 206) return false
  const [line = '', ...more] = fieldValues(head.fields.list, 'content-range')
  const range = more.length === 0 ? parseContentRange(line) : undefined
  if (range === undefined || lengthContradicts(stored, range.completeLength)) return false
  const validator = new StoredResponse(stored).strongValidator
  if (validator === undefined) return false
  return validator === fieldValue(head.fields.list, isTag(stored) ? 'etag' : 'last-modified')
}

function lengthContradicts(stored: StoredHead, completeLength: number | undefined): boolean {
  const known = stored.completeLength
  return known !== undefined && completeLength !== undefined && known !== completeLength
}

function isTag(stored: StoredHead): boolean {
  return fieldValue(stored.fields, 'etag') !== undefined
}

/**
 * The head of a stored response combined with a received part: fields of the newer part replace those of the stored one
 * (§3.4), and the status is 200 if the representation is complete.
 * @param newer the head of the received part, as it would be stored by itself; mayCombine must have returned true
 * @returns undefined if there is a gap between them
 */
export function combinedHead(stored: StoredHead, newer: StoredHead): StoredHead | undefined {
  const range = stored.range && newer.range && joined(stored.range, newer.range)
  if (range === undefined) return undefined
  const names = new Set(newer.fields.filter((_, at) => at % 2 === 0).map(name => name.toLowerCase()))
  const fields = [...withoutFields(stored.fields, names.add('age')), ...newer.fields]
  const { method, minor, reason, selecting, requestedAt, respondedAt } = newer
  const merged = { method, minor, fields, selecting, requestedAt, respondedAt }
  const completeLength = newer.completeLength ?? stored.completeLength
  if (completeLength === undefined) return { ...merged, status: 206, reason, range }
  if (range.first === 0 && range.last + 1 === completeLength)
    return { ...merged, status: 200, reason: registeredPhrase(200) }
  return { ...merged, status: 206, reason, range, completeLength }
}

/**
 * The fields of a request for the rest of a stored beginning (§3.4). With If-Range the origin sends the complete
 * representation if it has changed (RFC 9110 §13.1.5).
 * @param fields the fields of the client's request
 * @returns undefined if the stored part is not the beginning, or has no strong validator
 */
export function remainderRange(fields: Fields, response: StoredResponse): Fields | undefined {
  const { range } = response
  const validator = response.strongValidator
  if (range === undefined || range.first !== 0 || validator === undefined) return undefined
  const kept = withoutFields(fields, CONDITIONS)
  return [...kept, 'Range', `bytes=${range.last + 1}-`, 'If-Range', validator]
}
