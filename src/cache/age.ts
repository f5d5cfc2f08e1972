/**
 * The age of a stored response: the time since the origin generated or validated it (RFC 9111 §4.2.3, §5.1).
 *
 * An Age that is not a number is ignored (§5.1); the age is still known from Date.
 */
import { trimOws } from '../http/fields.js'
import { MAX_DELTA_SECONDS } from './cache-control.js'

const DIGITS = /^\d+$/

/** The parts of a stored response that its age depends on. */
interface Aging {
  /** Its age when it was received, in milliseconds. */
  readonly initialAgeMs: number
  readonly respondedAt: number
}

/**
 * Parses Age. If it has several members, the first one counts (§5.1).
 * @param values the values of all field lines
 * @returns seconds, at most 2^31; 0 if there is no such field or its first member is malformed
 */
export function parseAge(values: readonly string[]): number {
  const [first = ''] = (values[0] ?? '').split(',', 1).map(trimOws)
  return DIGITS.test(first) ? Math.min(Number(first), MAX_DELTA_SECONDS) : 0
}

/**
 * Computes `corrected_initial_age`: the larger of the ages by Date and by Age, including the time of the exchange.
 * @param ageSeconds the result of parseAge
 * @param dateMs milliseconds since the epoch, like the two times
 * @returns milliseconds
 */
export function initialAgeMs(
  ageSeconds: number,
  dateMs: number,
  times: { readonly requestedAt: number; readonly respondedAt: number },
): number {
  // Date has no fractions of a second, so those of the clock must not count as age.
  const apparent = Math.max(0, Math.floor(times.respondedAt / 1000) * 1000 - dateMs)
  const delay = Math.max(0, times.respondedAt - times.requestedAt)
  return Math.max(apparent, ageSeconds * 1000 + delay)
}

/**
 * @param now milliseconds since the epoch; if the clock was set back, the age is that when the response was received
 * @returns milliseconds
 */
export function currentAgeMs(response: Aging, now: number): number {
  const resident = now - response.respondedAt
  return resident > 0 ? response.initialAgeMs + resident : response.initialAgeMs
}

/** The value of Age (RFC 9111 §5.1); all larger ages are represented by its maximum (§1.2.2). */
export function currentAgeSeconds(response: Aging, now: number): number {
  return wholeSeconds(currentAgeMs(response, now))
}

export function wholeSeconds(ms: number): number {
  return Math.min(Math.floor(ms / 1000), MAX_DELTA_SECONDS)
}
