/**
 * Conditional requests: which preconditions are evaluated, in which order, and the result when one is false
 * (RFC 9110 §13.1.1 to §13.1.4, §13.2.2).
 *
 * A condition that cannot be parsed never permits a write: a client that misspells an entity tag must not overwrite
 * the work of another. So a malformed If-Match matches nothing, and a malformed If-None-Match fails, except for reads,
 * which would otherwise receive no content. Invalid dates are different: they must be ignored (RFC 9110 §13.1.3,
 * §13.1.4).
 */
import { parseHttpDate } from './date.js'
import { type EntityTag, type EntityTagList, isStrongMatch, isWeakMatch, parseEntityTags } from './etag.js'
import { type Fields, fieldValues } from './fields.js'
import type { Method } from './method.js'

/** The validators of the current representation of the target. */
export interface Validators {
  readonly etag: EntityTag | undefined
  /** Milliseconds since the epoch; compared in whole seconds, the resolution of an HTTP-date. */
  readonly lastModifiedMs: number | undefined
}

export interface ConditionalRequest {
  readonly method: Method
  readonly fields: Fields
  /** undefined when the target has no representation. */
  readonly current: Validators | undefined
  /** Milliseconds since the epoch, used to interpret two-digit years. */
  readonly now: number
}

/** Perform the method, answer 304, or answer 412. */
export type Precondition = 'proceed' | 'not_modified' | 'failed'

/** These neither select nor modify a representation, so their preconditions are ignored (RFC 9110 §13.2.1). */
const UNCONDITIONAL: ReadonlySet<Method> = new Set(['CONNECT', 'OPTIONS', 'TRACE'])
/** Without a representation these end in an error, which takes precedence over preconditions (RFC 9110 §13.2.1). */
const NEEDS_REPRESENTATION: ReadonlySet<Method> = new Set(['GET', 'HEAD', 'DELETE'])

/**
 * Must be called only when the request would otherwise succeed: other errors take precedence over preconditions
 * (RFC 9110 §13.2.1).
 *
 * An If-Modified-Since date in the future is compared like any other.
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

/** The date in a field that occurs once and is valid; undefined otherwise. */
function dateOf(fields: Fields, name: string, now: number): number | undefined {
  const values = fieldValues(fields, name)
  const [value] = values
  return values.length === 1 && value !== undefined ? parseHttpDate(value, now) : undefined
}

function secondOf(timeMs: number): number {
  return Math.floor(timeMs / 1000)
}
