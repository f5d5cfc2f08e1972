/**
 * Whether a stored response answers a request (RFC 9111 §4, §4.2.4, §5.2.1; RFC 5861; RFC 8246).
 *
 * The request may ask for something fresher than the response says of itself, or put up with something staler; the
 * response may forbid the latter. What neither allows is validated.
 */
import { currentAgeMs, wholeSeconds } from './age.js'
import type { Directives } from './cache-control.js'
import type { StoredResponse } from './freshness.js'
import { isHeuristicallyCacheable } from './heuristics.js'
import { type CacheRequest, hasRequestDirectives, requestDirectives } from './request.js'

/** What the operator has set for a host, instead of what its origin says. */
export interface LifetimeBounds {
  readonly minTtlMs?: number | undefined
  readonly maxTtlMs?: number | undefined
}

/**
 * `ageSeconds` is the Age of the answer; `ttlSeconds` what is left of its lifetime, less than nothing when it is
 * stale.
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
 * @param response one that the request selects
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

/** The same for a request with directives (RFC 9111 §5.2.1). */
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

/** A request with max-age or min-fresh wants nothing stale, unless it has max-stale too (RFC 9111 §5.2.1.1, §5.2.1.3). */
function wantsFresh(asked: Directives): boolean {
  return (asked.has('max-age') || asked.has('min-fresh')) && !asked.has('max-stale')
}

/**
 * `max-age=0` is what a reload sends. It asks again even what came a moment ago, but not what says that it will not
 * change (RFC 8246 §2); `no-cache` asks for that as well.
 */
function exceedsMaxAge(asked: Directives, response: StoredResponse, age: number, isFresh: boolean): boolean {
  const maxAge = asked.seconds('max-age')
  if (maxAge === undefined) return false
  if (maxAge === 'invalid') return true
  if (maxAge === 0) return !(isFresh && response.isImmutable)
  return age > maxAge * 1000
}

/**
 * How stale it may be for the request (RFC 9111 §5.2.1.2): any time without an argument, but none that nobody knows.
 */
function maxStaleMs(asked: Directives): number {
  if (!asked.has('max-stale')) return -1
  const seconds = asked.seconds('max-stale')
  if (typeof seconds === 'number') return seconds * 1000
  return asked.hasWithoutArgument('max-stale') ? Number.MAX_VALUE : -1
}

/** RFC 5861 §3. */
function isTolerated(response: StoredResponse, age: number, lifetime: number): boolean {
  return !response.mustRevalidate && age - lifetime < response.staleWhileRevalidateMs
}

/** Statuses that `stale-if-error` takes for an error (RFC 5861 §4). */
export function isStaleIfErrorStatus(status: number): boolean {
  return status === 500 || status === 502 || status === 503 || status === 504
}

/** How an origin has failed, and when: milliseconds since the epoch. */
export interface OriginFailure {
  readonly now: number
  /** Of its response; undefined where there is none. */
  readonly status: number | undefined
  readonly ttl?: LifetimeBounds | undefined
}

/** How long a response may be stale that is used because its origin cannot be reached. */
const DISCONNECTED_MS = 24 * 60 * 60 * 1000

/**
 * Whether a response is used, though stale, because no other can be had (RFC 9111 §4.2.4). Where the origin answers with
 * an error, response or request have to allow that with `stale-if-error` (RFC 5861 §4). Where it gives no response at
 * all, the cache is disconnected, and uses what is stale for a day at most. Never where something forbids it.
 */
export function mayServeStaleOnError(
  response: StoredResponse,
  request: CacheRequest,
  { now, status, ttl }: OriginFailure,
): boolean {
  if (response.mustRevalidate || (status !== undefined && !isStaleIfErrorStatus(status))) return false
  let tolerance = response.staleIfErrorMs
  let isUnwanted = false
  if (hasRequestDirectives(request.fields)) {
    const asked = requestDirectives(request.fields)
    if (asked.has('no-cache')) return false
    const seconds = asked.seconds('stale-if-error')
    if (typeof seconds === 'number') tolerance = Math.max(tolerance, seconds * 1000)
    isUnwanted = wantsFresh(asked)
  }
  if (status === undefined && !isUnwanted) tolerance = Math.max(tolerance, DISCONNECTED_MS)
  const staleness = currentAgeMs(response, now) - boundedLifetimeMs(response, ttl)
  return tolerance > 0 && staleness <= tolerance
}

/**
 * The least lifetime that is configured makes good content last, as a guess would (RFC 9111 §4.2.2): never an error,
 * nor what sets a cookie. The greatest holds for everything.
 */
export function boundedLifetimeMs(response: StoredResponse, ttl: LifetimeBounds | undefined): number {
  if (ttl === undefined) return response.lifetimeMs
  const isProlonged = ttl.minTtlMs !== undefined && mayBeProlonged(response)
  const lifetime = isProlonged ? Math.max(response.lifetimeMs, ttl.minTtlMs) : response.lifetimeMs
  return ttl.maxTtlMs === undefined ? lifetime : Math.min(lifetime, ttl.maxTtlMs)
}

/** Whether the operator may have it last longer than it says. */
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
