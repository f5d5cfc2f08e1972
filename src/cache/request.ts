/**
 * A request as the cache sees it, and what it asks of a cache (RFC 9111 §5.2.1, §5.4).
 *
 * A request that has none of the fields looked at here is the common one, and costs a look at one number.
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

/** Why a request goes past what is stored. */
export type BypassReason = 'method' | 'content' | 'no-store' | 'precondition' | 'upgrade'

const DECIDING = fieldSet('cache-control', 'pragma')
const OF_ITS_OWN = fieldSet('authorization', 'range', 'if-range', 'if-match', 'if-unmodified-since')
const CONDITIONAL = fieldSet('if-none-match', 'if-modified-since')
const FORWARDED = fieldSet('cache-control', 'if-match', 'if-unmodified-since', 'upgrade')

/**
 * Why a request is forwarded whatever is stored; undefined when it may be answered from the cache.
 *
 * GET with content means whatever its origin says (RFC 9110 §9.3.1). If-Match and If-Unmodified-Since are for the
 * origin to decide, as it alone knows what is current (RFC 9111 §4.3.2).
 */
export function bypassReason(request: CacheRequest): BypassReason | undefined {
  const { method, fields } = request
  if (method !== 'GET' && method !== 'HEAD') return 'method'
  if (request.hasContent) return 'content'
  if (!fields.hasAny(FORWARDED)) return undefined
  if (fields.has(FIELD['if-match']) || fields.has(FIELD['if-unmodified-since'])) return 'precondition'
  // Every request of some clients offers h2c, which is never taken.
  if (fields.has(FIELD.upgrade) && fields.members(FIELD.upgrade).some(name => name !== 'h2c'))
    return 'upgrade'
  return requestDirectives(fields).has('no-store') ? 'no-store' : undefined
}

/** Whether what is not stored is answered with 504 (RFC 9111 §5.2.1.7). */
export function onlyIfCached(fields: FieldSection): boolean {
  return fields.has(FIELD['cache-control']) && requestDirectives(fields).has('only-if-cached')
}

/**
 * Whether a request may be answered with the response to another one under way (RFC 9111 §4): it asks for nothing of its
 * own that an origin would see.
 */
export function mayCollapse({ method, fields }: CacheRequest): boolean {
  return method === 'GET' && !fields.hasAny(OF_ITS_OWN) && !hasRequestDirectives(fields)
}

/** Whether the client has something that it asks the origin about. */
export function isConditional({ fields }: CacheRequest): boolean {
  return fields.hasAny(CONDITIONAL)
}

/** Whether a request may say something about what is stored. */
export function hasRequestDirectives(fields: FieldSection): boolean {
  return fields.hasAny(DECIDING)
}

/** Pragma counts only where there is no Cache-Control (RFC 9111 §5.4). */
export function requestDirectives(fields: FieldSection): Directives {
  if (fields.has(FIELD['cache-control'])) return parseDirectives(fields.values(FIELD['cache-control']))
  if (fields.has(FIELD.pragma) && fields.members(FIELD.pragma).includes('no-cache')) return NO_CACHE
  return NONE
}

const NO_CACHE = parseDirectives(['no-cache'])
const NONE = parseDirectives([])
