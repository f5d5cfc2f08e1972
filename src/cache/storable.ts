/**
 * Decides whether a response is stored (RFC 9111 §3), and which of its fields (§3.1).
 *
 * A stored response may be sent to any client that shares the cache, so a response is refused unless it is clearly meant to
 * be shared. It is also refused if it could never be used: if it is never fresh and cannot be validated.
 */
import { endToEndFields } from '../http/connection.js'
import { serializeHttpDate } from '../http/date.js'
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import { type Fields, fieldValues, withoutFields } from '../http/fields.js'
import { type ContentRange, parseContentRange } from '../http/range.js'
import { resolveReference } from '../http/uri-reference.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { type Directives, parseDirectives } from './cache-control.js'
import { parseDate, StoredResponse } from './freshness.js'
import { isHeuristicallyCacheable } from './heuristics.js'
import { type CacheRequest, requestDirectives } from './request.js'
import { boundedLifetimeMs, type LifetimeBounds } from './reuse.js'
import type { StoredHead } from './stored-response.js'
import { selectingFields } from './vary.js'

/** Why a response is not stored. */
export const NOT_STORED = [
  'method',
  'request-content',
  'request-no-store',
  'status',
  'no-store',
  'must-understand',
  'private',
  'authorization',
  'cookie',
  'set-cookie',
  'vary-star',
  'partial',
  'content-location',
  'no-freshness',
] as const
export type NotStored = (typeof NOT_STORED)[number]

export type Storable =
  | { readonly kind: 'store'; readonly head: StoredHead }
  | { readonly kind: 'refuse'; readonly why: NotStored }

/** When the request was sent, and when the head of the response was received: milliseconds since the epoch. */
export interface Times {
  readonly requestedAt: number
  readonly respondedAt: number
}

/** The statuses of RFC 9110 §15 whose requirements for caches are implemented here (RFC 9111 §5.2.2.3). */
const UNDERSTOOD: ReadonlySet<number> = new Set([
  ...[200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 305, 307, 308],
  ...[400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 421, 422, 426],
  ...[500, 501, 502, 503, 504, 505],
])
/**
 * Statuses that are never stored: those that depend on more than the target of the request (304 and 412 on preconditions,
 * 416 on Range, 417 on Expect, 407 on the proxy), and those that must not be stored (RFC 6585 §3 to §6).
 */
const NEVER_STORED: ReadonlySet<number> = new Set([304, 407, 412, 416, 417, 428, 429, 431, 511])
/** Fields of the received message that are not stored. */
const MESSAGE_FIELDS = fieldSet('trailer', 'content-length')

/**
 * @param head the head of the final response to the request
 * @param ttl the configured bounds for the host
 */
export function decideStorable(
  request: CacheRequest,
  head: ReceivedHead,
  times: Times,
  ttl?: LifetimeBounds,
): Storable {
  const { method, fields } = request
  if (method !== 'GET' && method !== 'POST' && method !== 'PATCH') return refuse('method')
  if (method === 'GET' && request.hasContent) return refuse('request-content')
  if (requestDirectives(fields).has('no-store')) return refuse('request-no-store')
  if (head.status < 200 || NEVER_STORED.has(head.status)) return refuse('status')
  const range = head.status === 206 ? receivedRange(head) : undefined
  if (head.status === 206 && range === undefined) return refuse('partial')

  const received = headOf(request, head, times, range)
  const response = new StoredResponse(received)
  const subject = { response, head: received, directives: response.directives }
  const why = refusalOf(request, subject) ?? refusalOfUnusable(response, ttl)
  return why === undefined ? { kind: 'store', head: withoutNamed(subject) } : refuse(why)
}

/** A response with its head and its directives, which it would parse again at each access. */
interface Subject {
  readonly response: StoredResponse
  readonly head: StoredHead
  readonly directives: Directives
}

function subjectOf(response: StoredResponse): Subject {
  return { response, head: response.head, directives: response.directives }
}

function refuse(why: NotStored): Storable {
  return { kind: 'refuse', why }
}

/**
 * What to do with a stored response once its fields were updated by a 304, or by the response to HEAD (RFC 9111 §4.3.4,
 * §5.2.2). `leave` is for an update that is meant for a single client (§3.5).
 * @param response the response with the updated fields
 */
export function decideUpdate(request: CacheRequest, response: StoredResponse): 'update' | 'leave' | 'remove' {
  const subject = subjectOf(response)
  const { directives } = subject
  if (isPrivate(subject)) return 'remove'
  if (directives.has('no-store') && !directives.has('must-understand')) return 'remove'
  return request.fields.has(FIELD.authorization) && !isForAuthorized(subject) ? 'leave' : 'update'
}

/**
 * Whether the response is private, by the targeted field or by Cache-Control. In general a targeted field replaces
 * Cache-Control; but an origin that uses one for its own CDN does not allow the caches of others to share what
 * Cache-Control calls private (RFC 9213 §2.2).
 */
function isPrivate({ directives, head }: Subject): boolean {
  if (directives.fieldNames('private') === 'all') return true
  return parseDirectives(fieldValues(head.fields, 'cache-control')).fieldNames('private') === 'all'
}

/** Why a response must not be stored, by RFC 9111 §3 and §3.5, or because it may be personal. */
function refusalOf(request: CacheRequest, subject: Subject): NotStored | undefined {
  const { fields, method } = request
  const { response, directives } = subject
  const { status, isExplicit, isPublic } = response
  const isUnderstood = UNDERSTOOD.has(status)
  if (directives.has('must-understand') && !isUnderstood) return 'must-understand'
  // With must-understand, no-store applies only to caches that do not understand the status (RFC 9111 §5.2.2.3).
  if (directives.has('no-store') && !directives.has('must-understand')) return 'no-store'
  if (isPrivate(subject)) return 'private'
  if (fields.has(FIELD.authorization) && !isForAuthorized(subject)) return 'authorization'
  if (!response.isSelectable) return 'vary-star'
  if (!isExplicit && !isPublic && !isHeuristicallyCacheable(status)) return 'status'
  if (mustNotSetCookies(response)) return 'set-cookie'
  if (!isExplicit && !response.noCache) {
    if (fields.has(FIELD.authorization)) return 'authorization'
    if (fields.has(FIELD.cookie)) return 'cookie'
  }
  if (method !== 'GET') return refusalOfUnsafe(request, subject)
  return undefined
}

function mustNotSetCookies({ setsCookie, isExplicit, isPublic }: StoredResponse): boolean {
  return setsCookie && !isExplicit && !isPublic
}

/** Whether a response to a request with Authorization may be shared (RFC 9111 §3.5). */
function isForAuthorized({ directives, response }: Subject): boolean {
  return response.isPublic || directives.has('must-revalidate') || directives.has('s-maxage')
}

/**
 * A response to POST or PATCH may be stored as one to GET if it has an explicit lifetime, and its Content-Location says that
 * it is the current representation of the target (RFC 9110 §9.3.3, RFC 5789 §2).
 */
function refusalOfUnsafe(request: CacheRequest, { response, head }: Subject): NotStored | undefined {
  if (head.status !== 200) return 'status'
  if (!response.isExplicit) return 'no-freshness'
  const [location, ...more] = fieldValues(head.fields, 'content-location')
  if (location === undefined || more.length > 0) return 'content-location'
  return resolveReference(location, request.key.uri) === request.key.uri ? undefined : 'content-location'
}

/** Why it makes no sense to store a response: it could never be used. */
function refusalOfUnusable(response: StoredResponse, ttl: LifetimeBounds | undefined): NotStored | undefined {
  if (response.isValidatable) return undefined
  if (response.noCache || !Number.isFinite(response.initialAgeMs)) return 'no-freshness'
  if (boundedLifetimeMs(response, ttl) > 0) return undefined
  const { staleWhileRevalidateMs, staleIfErrorMs, mustRevalidate } = response
  return !mustRevalidate && staleWhileRevalidateMs + staleIfErrorMs > 0 ? undefined : 'no-freshness'
}

/** The declared bytes of a response's content, for a part also by its Content-Range; undefined if not declared. */
export function expectedLength(head: ReceivedHead): number | undefined {
  if (head.contentLength !== undefined || head.status !== 206) return head.contentLength
  const range = receivedRange(head)
  return range && range.last - range.first + 1
}

/** The range of a 206; undefined if it has none, or another Content-Length (RFC 9110 §14.4, §15.3.7). */
function receivedRange(head: ReceivedHead): ContentRange | undefined {
  const lines = fieldValues(head.fields.list, 'content-range')
  const [line] = lines
  const range = line === undefined || lines.length > 1 ? undefined : parseContentRange(line)
  if (range === undefined) return undefined
  const length = range.last - range.first + 1
  return head.contentLength === undefined || head.contentLength === length ? range : undefined
}

function headOf(
  request: CacheRequest,
  head: ReceivedHead,
  times: Times,
  range: ContentRange | undefined,
): StoredHead {
  const fields = storedFields(head, times)
  const isWhole = range !== undefined && range.first === 0 && range.last + 1 === range.completeLength
  const stored: StoredHead = {
    method: request.method,
    // A part that covers the whole representation is stored as a complete response.
    status: isWhole ? 200 : head.status,
    reason: isWhole ? 'OK' : head.reason,
    minor: head.minor,
    fields,
    selecting: selectingFields(request.fields, fieldValues(fields, 'vary')),
    requestedAt: times.requestedAt,
    respondedAt: times.respondedAt,
  }
  return range === undefined || isWhole ? stored : { ...stored, ...partOf(range) }
}

function partOf({ first, last, completeLength }: ContentRange): Pick<StoredHead, 'range' | 'completeLength'> {
  const range = { first, last }
  return completeLength === undefined ? { range } : { range, completeLength }
}

/**
 * The head without the fields that must not be shared (RFC 9111 §5.2.2.4, §5.2.2.7): those that private or no-cache names,
 * and Set-Cookie unless the response is explicitly meant to be shared.
 */
export function withoutWithheld(response: StoredResponse): StoredHead {
  return withoutNamed(subjectOf(response))
}

function withoutNamed({ response, head, directives }: Subject): StoredHead {
  const named = [directives.fieldNames('private'), directives.fieldNames('no-cache')]
  const withheld = new Set(named.flatMap(names => (names === undefined || names === 'all' ? [] : names)))
  if (mustNotSetCookies(response)) withheld.add('set-cookie')
  if (withheld.size === 0) return head
  return { ...head, fields: withoutFields(head.fields, withheld) }
}

/**
 * The fields of a response that are stored (§3.1): without those of the connection and of proxies, without Trailer, as
 * trailers are not stored, and without Content-Length, as the length of the content is known. A part is stored without its
 * position, which changes when parts are combined. If Date is missing or invalid, it becomes the time when the response was
 * received (RFC 9110 §6.6.1).
 */
export function storedFields(head: ReceivedHead, times: Times): Fields {
  const fields = endToEndFields(head.fields, MESSAGE_FIELDS)
  const kept = head.status === 206 ? withoutFields(fields, CONTENT_RANGE) : fields
  if (hasValidDate(head.fields, times.respondedAt)) return kept
  return [...withoutFields(kept, DATE), 'Date', serializeHttpDate(times.respondedAt)]
}

const CONTENT_RANGE: ReadonlySet<string> = new Set(['content-range'])
const DATE: ReadonlySet<string> = new Set(['date'])

function hasValidDate(fields: FieldSection, now: number): boolean {
  const value = fields.isRepeated(FIELD.date) ? undefined : fields.value(FIELD.date)
  return value !== undefined && parseDate(value, now) !== undefined
}
