/**
 * Durations and sizes in the configuration: a whole number and a unit, `250ms`, `3s`, `10m`, `24h`, `1d`,
 * and `512B`, `16KiB`, `8MiB`, `1GiB`.
 *
 * The unit is required: a bare 30 means seconds to one reader and milliseconds to another. KB and MB are rejected, because
 * many readers take them for powers of ten.
 */

const MS_OF = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const
const BYTES_OF = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 } as const

/** For the JSON Schema; parseDuration decides. */
export const DURATION_PATTERN = '^([0-9]{1,9})(ms|s|m|h|d)$'
const DURATION = new RegExp(DURATION_PATTERN)

/** For the JSON Schema; parseSize decides. */
export const SIZE_PATTERN = '^([0-9]{1,9})(B|KiB|MiB|GiB)$'
const SIZE = new RegExp(SIZE_PATTERN)

/**
 * @returns milliseconds
 * @throws RangeError whose message says what was expected
 */
export function parseDuration(text: string): number {
  const [, digits, unit] = DURATION.exec(text) ?? []
  if (digits === undefined) throw new RangeError(`${expectedDuration(text)}, found "${text}"`)
  return Number(digits) * MS_OF[unit as keyof typeof MS_OF]
}

/**
 * @returns bytes
 * @throws RangeError whose message says what was expected
 */
export function parseSize(text: string): number {
  const [, digits, unit] = SIZE.exec(text) ?? []
  if (digits === undefined) throw new RangeError(`${expectedSize(text)}, found "${text}"`)
  return Number(digits) * BYTES_OF[unit as keyof typeof BYTES_OF]
}

/** The clause about a value that is not a duration; for a number without a unit it suggests units. */
export function expectedDuration(found: unknown): string {
  if (isBareNumber(found)) return `expected a duration with its unit, such as ${found}s or ${found}ms`
  return 'expected a duration such as 250ms, 3s, 10m, 24h or 1d'
}

/** The clause about a value that is not a size; for a number without a unit it suggests units. */
export function expectedSize(found: unknown): string {
  if (isBareNumber(found)) return `expected a size with its unit, such as ${found}B or ${found}KiB`
  return 'expected a size such as 512B, 16KiB, 8MiB or 1GiB'
}

function isBareNumber(found: unknown): found is number | string {
  return typeof found === 'number' || (typeof found === 'string' && /^\d+$/.test(found))
}

/** @param ms a whole number; written in the largest unit that divides it */
export function serializeDuration(ms: number): string {
  return inLargestUnit(ms, MS_OF, '0s')
}

/** @param bytes a whole number; written in the largest unit that divides it */
export function serializeSize(bytes: number): string {
  return inLargestUnit(bytes, BYTES_OF, '0B')
}

/** @param units the units with their sizes, the largest first; the last has size 1 */
function inLargestUnit(quantity: number, units: Readonly<Record<string, number>>, zero: string): string {
  if (quantity === 0) return zero
  for (const [unit, size] of Object.entries(units))
    if (quantity % size === 0) return `${quantity / size}${unit}`
  return `${quantity}${Object.keys(units).at(-1)}`
}
