/**
 * Decides whether a stored response may be reused for a request (RFC 9111 §4, §4.2.4, §5.2.1; RFC 5861; RFC 8246).
 *
 * A request may require a fresher response, or accept a stale one, unless the response forbids that. Otherwise the response
 * has to be validated.
 */
import { currentAgeMs, wholeSeconds } from './age.js'
import type { Directives } from './cache-control.js'
import type { StoredResponse } from './freshness.js'
import { isHeuristicallyCacheable } from './heuristics.js'
import { type CacheRequest, hasRequestDirectives, requestDirectives } from './request.js'

/** Bounds that the configuration sets for a host's lifetimes, which override those given by the origin. */
export interface LifetimeBounds {
  readonly minTtlMs?: number | undefined
  readonly maxTtlMs?: number | undefined
}

/**
 * `ageSeconds` is the value of Age; `ttlSeconds` is the remaining lifetime, which is negative for a stale response.
 */
export type Reuse =
  | { readonly kind: 'fresh'; readonly ageSeconds: number; readonly ttlSeconds: number }
  | {
      readonly kind: 'stale'
      readonly ageSeconds: number
      readonly ttlSeconds: number
      readonly why: 'stale-while-revalidate' | 'max-stale'
    }
  | { readonly kind: 'validate'; readonly why: 'stale' | 'request' | 'no-cache' }

const STALE: Reuse = Object.freeze({ kind: 'validate', why: 'stale' })
const REQUEST: Reuse = Object.freeze({ kind: 'validate', why: 'request' })
const NO_CACHE: Reuse = Object.freeze({ kind: 'validate', why: 'no-cache' })

/**
 * @param response a stored response that the request selects
 * @param now milliseconds since the epoch
 */
export function decideReuse(
  response: StoredResponse,
  request: CacheRequest,
  now: number,
  ttl?: LifetimeBounds,
): Reuse {
  if (response.noCache) return NO_CACHE
  const age = currentAgeMs(response, now)
  const lifetime = ttl === undefined ? response.lifetimeMs : boundedLifetimeMs(response, ttl)
  if (hasRequestDirectives(request.fields)) {
    return decideAsAsked(requestDirectives(request.fields), response, age, lifetime)
  }
  if (age < lifetime) return fresh(age, lifetime)
  return isTolerated(response, age, lifetime) ? stale(age, lifetime, 'stale-while-revalidate') : STALE
}

/** Decides for a request with directives (RFC 9111 §5.2.1). */
function decideAsAsked(asked: Directives, response: StoredResponse, age: number, lifetime: number): Reuse {
  if (asked.has('no-cache')) return REQUEST
  const isFresh = age < lifetime
  const minFresh = asked.seconds('min-fresh')
  if (minFresh === 'invalid') return REQUEST
  if (minFresh !== undefined && lifetime - age < minFresh * 1000) return isFresh ? REQUEST : STALE
  if (exceedsMaxAge(asked, response, age, isFresh)) return REQUEST
  if (isFresh) return fresh(age, lifetime)
  if (!response.mustRevalidate && age - lifetime <= maxStaleMs(asked))
    return stale(age, lifetime, 'max-stale')
  if (wantsFresh(asked)) return STALE
  return isTolerated(response, age, lifetime) ? stale(age, lifetime, 'stale-while-revalidate') : STALE
}

/** A request with max-age or min-fresh accepts no stale response, unless it has max-stale, too (RFC 9111 §5.2.1.1, §5.2.1.3). */
function wantsFresh(asked: Directives): boolean {
  return (asked.has('max-age') || asked.has('min-fresh')) && !asked.has('max-stale')
}

/**
 * Whether the response is too old for the request's max-age. Browsers send `max-age=0` to reload a page: every response has
 * to be validated then, except a fresh one that is immutable (RFC 8246 §2); with `no-cache` that one, too.
 */
function exceedsMaxAge(asked: Directives, response: StoredResponse, age: number, isFresh: boolean): boolean {
  const maxAge = asked.seconds('max-age')
  if (maxAge === undefined) return false
  if (maxAge === 'invalid') return true
  if (maxAge === 0) return !(isFresh && response.isImmutable)
  return age > maxAge * 1000
}

/**
 * How stale the response may be for the request: without limit if max-stale has no argument (RFC 9111 §5.2.1.2).
 * @returns milliseconds; -1 without max-stale, or if its argument is invalid
 */
function maxStaleMs(asked: Directives): number {
  if (!asked.has('max-stale')) return -1
  const seconds = asked.seconds('max-stale')
  if (typeof seconds === 'number') return seconds * 1000
  return asked.hasWithoutArgument('max-stale') ? Number.MAX_VALUE : -1
}

/** Whether the response may be used while it is validated: `stale-while-revalidate` (RFC 5861 §3). */
function isTolerated(response: StoredResponse, age: number, lifetime: number): boolean {
  return !response.mustRevalidate && age - lifetime < response.staleWhileRevalidateMs
}

/** Whether a status is an error for the purpose of `stale-if-error` (RFC 5861 §4). */
export function isStaleIfErrorStatus(status: number): boolean {
  return status === 500 || status === 502 || status === 503 || status === 504
}

/** The failure of an origin. */
export interface OriginFailure {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The status of its response; undefined if there is none. */
  readonly status: number | undefined
  readonly ttl?: LifetimeBounds | undefined
}

/** How stale a response may be that is used because its origin cannot be reached. */
const DISCONNECTED_MS = 24 * 60 * 60 * 1000

/**
 * Whether a stale response may be used because the origin has failed (RFC 9111 §4.2.4). If the origin has responded with an
 * error, the response or the request must allow it with `stale-if-error` (RFC 5861 §4). If there was no response at all,
 * the cache is disconnected, and may use a response that has been stale for at most a day. A directive that forbids stale
 * responses always takes precedence.
 */
export function mayServeStaleOnError(
  response: StoredResponse,
  request: CacheRequest,
  { now, status, ttl }: OriginFailure,
): boolean {
  if (response.mustRevalidate || (status !== undefined && !isStaleIfErrorStatus(status))) return false
  let tolerance = response.staleIfErrorMs
  let requiresFresh = false
  if (hasRequestDirectives(request.fields)) {
    const asked = requestDirectives(request.fields)
    if (asked.has('no-cache')) return false
    const seconds = asked.seconds('stale-if-error')
    if (typeof seconds === 'number') tolerance = Math.max(tolerance, seconds * 1000)
    requiresFresh = wantsFresh(asked)
  }
  if (status === undefined && !requiresFresh) tolerance = Math.max(tolerance, DISCONNECTED_MS)
  const staleness = currentAgeMs(response, now) - boundedLifetimeMs(response, ttl)
  return tolerance > 0 && staleness <= tolerance
}

/**
 * Applies the configured bounds to a lifetime. Like a heuristic, the minimum applies only to successful responses that set
 * no cookie (RFC 9111 §4.2.2); the maximum applies to all.
 */
export function boundedLifetimeMs(response: StoredResponse, ttl: LifetimeBounds | undefined): number {
  if (ttl === undefined) return response.lifetimeMs
  const isProlonged = ttl.minTtlMs !== undefined && mayBeProlonged(response)
  const lifetime = isProlonged ? Math.max(response.lifetimeMs, ttl.minTtlMs) : response.lifetimeMs
  return ttl.maxTtlMs === undefined ? lifetime : Math.min(lifetime, ttl.maxTtlMs)
}

/** Whether the configuration may extend the lifetime of a response. */
function mayBeProlonged(response: StoredResponse): boolean {
  const { status } = response
  return status < 400 && isHeuristicallyCacheable(status) && !response.setsCookie && !response.noCache
}

function fresh(age: number, lifetime: number) {
  const ageSeconds = wholeSeconds(age)
  return { kind: 'fresh', ageSeconds, ttlSeconds: wholeSeconds(lifetime) - ageSeconds } as const
}

function stale(age: number, lifetime: number, why: 'stale-while-revalidate' | 'max-stale') {
  return { ...fresh(age, lifetime), kind: 'stale', why } as const
}
