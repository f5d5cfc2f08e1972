/**
 * Durations as the configuration writes them: a whole number and a unit, `250ms`, `3s`, `10m`, `24h`, `1d`.
 *
 * The unit is never optional: a bare 30 means seconds to one reader and milliseconds to the next.
 */

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const

/** For the JSON Schema; parseDuration decides. */
export const DURATION_PATTERN = '^([0-9]{1,9})(ms|s|m|h|d)$'
const DURATION = new RegExp(DURATION_PATTERN)

/**
 * @returns milliseconds
 * @throws RangeError with a clause that says what was expected
 */
export function parseDuration(text: string): number {
  const [, digits, unit] = DURATION.exec(text) ?? []
  if (digits === undefined) throw new RangeError(`${expectedDuration(text)}, found "${text}"`)
  return Number(digits) * UNITS[unit as keyof typeof UNITS]
}

/** The clause for something that is no duration; a number without a unit gets told so. */
export function expectedDuration(found: unknown): string {
  const bare = typeof found === 'number' || (typeof found === 'string' && /^\d+$/.test(found))
  if (bare) return `expected a duration with its unit, such as ${String(found)}s or ${String(found)}ms`
  return 'expected a duration such as 250ms, 3s, 10m, 24h or 1d'
}

/** @param ms whole milliseconds; written in the largest unit that leaves no remainder */
export function serializeDuration(ms: number): string {
  if (ms === 0) return '0s'
  for (const [unit, size] of Object.entries(UNITS)) if (ms % size === 0) return `${ms / size}${unit}`
  return `${ms}ms`
}
