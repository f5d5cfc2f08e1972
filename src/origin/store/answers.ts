/** The responses of the store: heads with their common fields, and the errors that are used in more than one file. */
import { ProxyError } from '../../errors.js'
import type { Exchange, ResponseContent } from '../../exchange.js'
import { decidePreconditions, type Precondition, type Validators } from '../../http/conditional.js'
import { serializeHttpDate } from '../../http/date.js'
import { serializeEntityTag } from '../../http/etag.js'
import type { Method } from '../../http/method.js'
import { registeredPhrase } from '../../http/reason-phrase.js'
import { type Measured, Outcome } from '../../outcome.js'

/** The methods that the store implements for resources, and for collections. */
export const RESOURCE_METHODS: readonly Method[] = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']
export const COLLECTION_METHODS: readonly Method[] = ['GET', 'HEAD', 'POST', 'OPTIONS']

/**
 * The allowed methods for a target.
 * @param passing the methods that the route allows; TRACE, which the proxy itself answers, may be among them
 * @param isCollection whether the path ends in `/`
 */
export function storeMethods(passing: readonly Method[], isCollection: boolean): Method[] {
  const taken = isCollection ? COLLECTION_METHODS : RESOURCE_METHODS
  return passing.filter(name => name === 'TRACE' || taken.includes(name))
}

/** Media types of patch documents, in the order of preference. */
export const ACCEPT_PATCH = 'application/json-patch+json, application/merge-patch+json'

/** What is needed to send a response. */
export interface AnswerContext {
  readonly exchange: Exchange
  /** The current HTTP-date. */
  readonly date: () => string
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/**
 * Sends the head of the final response.
 * @param contentLength undefined if a response with this status never has content
 */
export function answer(
  { exchange, date }: AnswerContext,
  status: number,
  fields: readonly string[],
  contentLength?: number,
): ResponseContent {
  return exchange.respond({
    status,
    reason: registeredPhrase(status),
    fields: ['Date', date(), ...fields],
    contentLength,
  })
}

/** Sends a response without content, and ends it. */
export function answerEmpty(context: AnswerContext, status: number, fields: readonly string[]): Outcome {
  const hasLength = status !== 204 && status !== 304
  answer(context, status, fields, hasLength ? 0 : undefined).end()
  return outcomeOf(context.exchange, status, 0)
}

export function outcomeOf(exchange: Exchange, status: number, bytesDown: number): Outcome {
  return Outcome.complete('origin', status, measuredOf(exchange, bytesDown))
}

/** @param bytesDown bytes of content that were sent */
export function measuredOf({ content }: Exchange, bytesDown: number): Measured {
  return { bytesUp: content.bytes, bytesDown }
}

/** Makes ETag and Last-Modified (RFC 9110 §8.8). Last-Modified is never later than Date, even if the clock was (§8.8.2.1). */
export function validatorFields(
  { now }: Pick<AnswerContext, 'now'>,
  { etag, lastModifiedMs }: Validators,
): string[] {
  const fields: string[] = []
  if (etag !== undefined) fields.push('ETag', serializeEntityTag(etag))
  if (lastModifiedMs !== undefined) {
    fields.push('Last-Modified', serializeHttpDate(Math.min(lastModifiedMs, now())))
  }
  return fields
}

/**
 * @param current the validators of the current representation; undefined if there is none
 * @throws ProxyError 412
 */
export function checkPreconditions(
  { exchange, now }: AnswerContext,
  current: Validators | undefined,
): Exclude<Precondition, 'failed'> {
  const fields = exchange.head.fields.list
  const decision = decidePreconditions({ method: exchange.facts.method, fields, current, now: now() })
  if (decision !== 'failed') return decision
  throw new ProxyError('http_request_error', 'a precondition failed', {
    status: 412,
    reason: 'precondition',
    detail: 'The current version does not meet If-Match, If-None-Match or If-Unmodified-Since.',
  })
}

export function notFound(path: string): ProxyError {
  return new ProxyError('http_request_error', 'no such resource', {
    status: 404,
    reason: 'not_found',
    detail: path.endsWith('/')
      ? `The store holds nothing below ${path}; PUT and POST would create it.`
      : `The store holds nothing at ${path}; PUT would create it.`,
  })
}

/** @param allow the methods that the target allows */
export function methodNotAllowed(allow: string): ProxyError {
  return new ProxyError('http_request_error', 'method not allowed on this path', {
    status: 405,
    reason: 'method_not_allowed',
    fields: ['Allow', allow],
    detail: `This path allows ${allow}: a path that ends in / is a collection, any other a resource.`,
  })
}

/** @param detail which limit was exceeded, and where it is set */
export function tooLarge(detail: string): ProxyError {
  return new ProxyError('http_request_error', 'content too large', {
    status: 413,
    reason: 'content_too_large',
    detail,
  })
}

export function tooLargeObject(maxBytes: number): ProxyError {
  return tooLarge(
    `A resource may have at most ${maxBytes} bytes; origins[].store.max_object sets this limit.`,
  )
}

/**
 * 400: the patch document is malformed (RFC 5789 §2.2, as for the next two errors).
 */
export function malformedPatch(what: string): ProxyError {
  return new ProxyError('http_request_error', 'malformed patch document', {
    status: 400,
    reason: 'patch_malformed',
    detail: `The patch document is malformed: ${what}.`,
  })
}

/** 422: the patch is valid, but cannot be applied to the current resource. */
export function cannotApply(what: string): ProxyError {
  return new ProxyError('http_request_error', 'the patch cannot be applied', {
    status: 422,
    reason: 'patch_inapplicable',
    detail: `The patch cannot be applied, and nothing was changed: ${what}.`,
  })
}

/** 415: the media type or the content coding is not one that PATCH supports. */
export function unsupportedPatch(what: string, fields: readonly string[] = []): ProxyError {
  return new ProxyError('http_request_error', 'patch format not supported', {
    status: 415,
    reason: 'patch_format',
    fields: ['Accept-Patch', ACCEPT_PATCH, ...fields],
    detail: `${what}; PATCH accepts ${ACCEPT_PATCH}.`,
  })
}
