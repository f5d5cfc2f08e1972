/**
 * Heuristic freshness: the lifetime of a response that has no explicit one (RFC 9111 §4.2.2).
 *
 * It is a tenth of the time since Last-Modified, and at most a day. A response that sets a cookie may be personal, so it
 * gets no heuristic lifetime.
 */

/** Heuristically cacheable statuses (RFC 9110 §15.1); with `public` all are (RFC 9111 §5.2.2.9). */
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

/** Whether a response with this status may be stored without an explicit lifetime (RFC 9110 §15.1). */
export function isHeuristicallyCacheable(status: number): boolean {
  return HEURISTICALLY_CACHEABLE.has(status)
}

/** @returns milliseconds; 0 if no heuristic may be used */
export function heuristicLifetimeMs(facts: HeuristicFacts): number {
  const { status, isPublic, setsCookie, dateMs, lastModifiedMs } = facts
  if (lastModifiedMs === undefined || setsCookie) return 0
  if (!isPublic && !isHeuristicallyCacheable(status)) return 0
  return Math.min(MAX_MS, Math.max(0, (dateMs - lastModifiedMs) * SHARE))
}
