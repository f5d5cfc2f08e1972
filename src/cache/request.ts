/**
 * A request as the cache sees it, and its directives for caches (RFC 9111 §5.2.1, §5.4).
 *
 * Most requests have none of the fields that matter here; `FieldSection.hasAny` finds that out by a single number.
 */
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import { type Directives, parseDirectives } from './cache-control.js'
import type { CacheKey } from './stored-response.js'

export interface CacheRequest {
  readonly method: string
  readonly key: CacheKey
  readonly fields: FieldSection
  readonly hasContent: boolean
}

/** Why a request bypasses the cache. */
export type BypassReason = 'method' | 'content' | 'no-store' | 'precondition' | 'upgrade'

const DIRECTIVES = fieldSet('cache-control', 'pragma')
const UNSHAREABLE = fieldSet('authorization', 'range', 'if-range', 'if-match', 'if-unmodified-since')
const CONDITIONAL = fieldSet('if-none-match', 'if-modified-since')
const BYPASSING = fieldSet('cache-control', 'if-match', 'if-unmodified-since', 'upgrade')

/**
 * Why a request must be forwarded regardless of what is stored; undefined if it may be answered from the cache.
 *
 * The meaning of content in a GET is up to the origin (RFC 9110 §9.3.1). If-Match and If-Unmodified-Since are evaluated by
 * the origin, as only the origin knows the current representation (RFC 9111 §4.3.2).
 */
export function bypassReason(request: CacheRequest): BypassReason | undefined {
  const { method, fields } = request
  if (method !== 'GET' && method !== 'HEAD') return 'method'
  if (request.hasContent) return 'content'
  if (!fields.hasAny(BYPASSING)) return undefined
  if (fields.has(FIELD['if-match']) || fields.has(FIELD['if-unmodified-since'])) return 'precondition'
  // Some clients offer h2c with every request; it is never accepted.
  if (fields.has(FIELD.upgrade) && fields.members(FIELD.upgrade).some(name => name !== 'h2c'))
    return 'upgrade'
  return requestDirectives(fields).has('no-store') ? 'no-store' : undefined
}

/** Whether the request gets 504 if it cannot be answered from the cache (RFC 9111 §5.2.1.7). */
export function onlyIfCached(fields: FieldSection): boolean {
  return fields.has(FIELD['cache-control']) && requestDirectives(fields).has('only-if-cached')
}

/**
 * Whether a request may be answered with the response to another request in progress (RFC 9111 §4): it has no field that
 * could make the origin respond differently.
 */
export function mayCollapse({ method, fields }: CacheRequest): boolean {
  return method === 'GET' && !fields.hasAny(UNSHAREABLE) && !hasRequestDirectives(fields)
}

/** Whether the client asks whether its own copy is still current. */
export function isConditional({ fields }: CacheRequest): boolean {
  return fields.hasAny(CONDITIONAL)
}

/** Whether a request has directives for caches. */
export function hasRequestDirectives(fields: FieldSection): boolean {
  return fields.hasAny(DIRECTIVES)
}

/** The directives of a request. Pragma counts only without Cache-Control (RFC 9111 §5.4). */
export function requestDirectives(fields: FieldSection): Directives {
  if (fields.has(FIELD['cache-control'])) return parseDirectives(fields.values(FIELD['cache-control']))
  if (fields.has(FIELD.pragma) && fields.members(FIELD.pragma).includes('no-cache')) return NO_CACHE
  return NONE
}

const NO_CACHE = parseDirectives(['no-cache'])
const NONE = parseDirectives([])
