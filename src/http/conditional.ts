/**
 * Conditional requests: which preconditions are looked at, in which order, and what follows when one does not hold
 * (RFC 9110 §13.1.1 to §13.1.4, §13.2.2).
 *
 * A condition that can not be read never lets a write through: nobody loses what another has written because a client
 * spells its entity tags wrong. So a malformed If-Match matches nothing, and a malformed If-None-Match fails, but for
 * reads, which it would cost the content. Invalid dates are the exception, as they have to be ignored
 * (RFC 9110 §13.1.3, §13.1.4).
 */
import { parseHttpDate } from './date.js'
import { type EntityTag, type EntityTagList, isStrongMatch, isWeakMatch, parseEntityTags } from './etag.js'
import { type Fields, fieldValues } from './fields.js'
import type { Method } from './method.js'

/** The validators of the representation that the target has now. */
export interface Validators {
  readonly etag: EntityTag | undefined
  /** Milliseconds since the epoch; compared by the second, as that is all that an HTTP-date holds. */
  readonly lastModifiedMs: number | undefined
}

export interface ConditionalRequest {
  readonly method: Method
  readonly fields: Fields
  /** undefined when the target has no representation. */
  readonly current: Validators | undefined
  /** Milliseconds since the epoch, for years of two digits. */
  readonly now: number
}

/** Do as the method says, answer 304, or answer 412. */
export type Precondition = 'proceed' | 'not_modified' | 'failed'

/** They neither select nor change a representation, so preconditions are ignored (RFC 9110 §13.2.1). */
const UNCONDITIONAL: ReadonlySet<Method> = new Set(['CONNECT', 'OPTIONS', 'TRACE'])
/** They need a representation; without one the answer is an error, which preconditions do not change (RFC 9110 §13.2.1). */
const NEEDS_REPRESENTATION: ReadonlySet<Method> = new Set(['GET', 'HEAD', 'DELETE'])

/**
 * To be asked when the request would otherwise succeed: preconditions never replace another error (RFC 9110 §13.2.1).
 *
 * If-Modified-Since in the future is compared like any other.
 * @see RFC 9110 §13.2.2
 */
export function decidePreconditions({ method, fields, current, now }: ConditionalRequest): Precondition {
  if (UNCONDITIONAL.has(method)) return 'proceed'
  if (current === undefined && NEEDS_REPRESENTATION.has(method)) return 'proceed'
  const reads = method === 'GET' || method === 'HEAD'

  const ifMatch = parseEntityTags(fields, 'if-match')
  if (ifMatch !== undefined) {
    if (!ifMatchHolds(ifMatch, current)) return 'failed'
  } else if (isModifiedSince(dateOf(fields, 'if-unmodified-since', now), current) === true) {
    return 'failed'
  }

  const ifNoneMatch = parseEntityTags(fields, 'if-none-match')
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatchHolds(ifNoneMatch, current, reads)) return 'proceed'
    return reads ? 'not_modified' : 'failed'
  }
  if (reads && isModifiedSince(dateOf(fields, 'if-modified-since', now), current) === false) {
    return 'not_modified'
  }
  return 'proceed'
}

/** RFC 9110 §13.1.1: strong comparison. */
function ifMatchHolds(list: EntityTagList, current: Validators | undefined): boolean {
  if (current === undefined) return false
  switch (list.kind) {
    case 'any':
      return true
    case 'tags': {
      const { etag } = current
      return etag !== undefined && list.tags.some(tag => isStrongMatch(tag, etag))
    }
    case 'malformed':
      return false
  }
}

/** RFC 9110 §13.1.2: weak comparison. */
function ifNoneMatchHolds(list: EntityTagList, current: Validators | undefined, reads: boolean): boolean {
  switch (list.kind) {
    case 'any':
      return current === undefined
    case 'tags': {
      const etag = current?.etag
      return etag === undefined || !list.tags.some(tag => isWeakMatch(tag, etag))
    }
    case 'malformed':
      return reads
  }
}

/** @returns undefined when one of the two dates is missing, so that the field is ignored (RFC 9110 §13.1.3, §13.1.4) */
function isModifiedSince(since: number | undefined, current: Validators | undefined): boolean | undefined {
  const modified = current?.lastModifiedMs
  if (since === undefined || modified === undefined) return undefined
  return secondOf(modified) > secondOf(since)
}

/** The date of a field that is there once and valid. */
function dateOf(fields: Fields, name: string, now: number): number | undefined {
  const values = fieldValues(fields, name)
  const [value] = values
  return values.length === 1 && value !== undefined ? parseHttpDate(value, now) : undefined
}

function secondOf(timeMs: number): number {
  return Math.floor(timeMs / 1000)
}
