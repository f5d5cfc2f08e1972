/**
 * Heuristic freshness (RFC 9111 §4.2.2): how long a response is taken for fresh that does not say so itself.
 *
 * What has not changed for long is taken to stay as it is for a tenth of that time, a day at most. Nothing is guessed
 * where the answer may be somebody's own: what sets a cookie only has the lifetime that it states.
 */

/** Statuses whose responses may be guessed at (RFC 9110 §15.1); with `public` any may (RFC 9111 §5.2.2.9). */
const HEURISTICALLY_CACHEABLE: ReadonlySet<number> = new Set([
  200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501,
])
const SHARE = 0.1
const MAX_MS = 24 * 60 * 60 * 1000

export interface HeuristicFacts {
  readonly status: number
  readonly isPublic: boolean
  readonly setsCookie: boolean
  /** Milliseconds since the epoch. */
  readonly dateMs: number
  readonly lastModifiedMs: number | undefined
}

/** Whether a response of that status may be stored without stating a lifetime (RFC 9110 §15.1). */
export function isHeuristicallyCacheable(status: number): boolean {
  return HEURISTICALLY_CACHEABLE.has(status)
}

/** @returns milliseconds; 0 where nothing may be guessed */
export function heuristicLifetimeMs(facts: HeuristicFacts): number {
  const { status, isPublic, setsCookie, dateMs, lastModifiedMs } = facts
  if (lastModifiedMs === undefined || setsCookie) return 0
  if (!isPublic && !isHeuristicallyCacheable(status)) return 0
  return Math.min(MAX_MS, Math.max(0, (dateMs - lastModifiedMs) * SHARE))
}
