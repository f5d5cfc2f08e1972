/**
 * The age of a stored response (RFC 9111 §4.2.3, §5.1): how long ago the origin generated or validated it.
 *
 * An Age that is no number is ignored (§5.1): Date tells the age all the same.
 */
import { trimOws } from '../http/fields.js'
import { MAX_DELTA_SECONDS } from './cache-control.js'

const DIGITS = /^\d+$/

/** What of a stored response tells its age. */
interface Aging {
  /** How old it was when it was received, in milliseconds. */
  readonly initialAgeMs: number
  readonly respondedAt: number
}

/**
 * The first member counts where there are several (§5.1).
 * @param values those of all its lines
 * @returns seconds, at most 2^31; 0 without the field, or when what counts of it is malformed
 */
export function parseAge(values: readonly string[]): number {
  const [first = ''] = (values[0] ?? '').split(',', 1).map(trimOws)
  return DIGITS.test(first) ? Math.min(Number(first), MAX_DELTA_SECONDS) : 0
}

/**
 * `corrected_initial_age`: the larger of what Date tells and of what Age tells, the time under way included.
 * @param ageSeconds as parseAge has it
 * @param dateMs milliseconds since the epoch, as the two times are
 * @returns milliseconds
 */
export function initialAgeMs(
  ageSeconds: number,
  dateMs: number,
  times: { readonly requestedAt: number; readonly respondedAt: number },
): number {
  // Date has no fractions of a second, and what is not known of it is no age.
  const apparent = Math.max(0, Math.floor(times.respondedAt / 1000) * 1000 - dateMs)
  const delay = Math.max(0, times.respondedAt - times.requestedAt)
  return Math.max(apparent, ageSeconds * 1000 + delay)
}

/**
 * @param now milliseconds since the epoch; a clock that was set back makes nothing younger than it was received
 * @returns milliseconds
 */
export function currentAgeMs(response: Aging, now: number): number {
  const resident = now - response.respondedAt
  return resident > 0 ? response.initialAgeMs + resident : response.initialAgeMs
}

/** The value of Age (RFC 9111 §5.1), whose largest number stands for all that are greater (§1.2.2). */
export function currentAgeSeconds(response: Aging, now: number): number {
  return wholeSeconds(currentAgeMs(response, now))
}

export function wholeSeconds(ms: number): number {
  return Math.min(Math.floor(ms / 1000), MAX_DELTA_SECONDS)
}
