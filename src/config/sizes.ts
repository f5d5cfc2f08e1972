/**
 * Sizes as the configuration writes them: a whole number and a binary unit, `512B`, `16KiB`, `8MiB`, `1GiB`.
 *
 * KB and MB are refused: half of their readers take them for powers of ten.
 */

const UNITS = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 } as const

/** For the JSON Schema; parseSize decides. */
export const SIZE_PATTERN = '^([0-9]{1,9})(B|KiB|MiB|GiB)$'
const SIZE = new RegExp(SIZE_PATTERN)

/**
 * @returns bytes
 * @throws RangeError with a clause that says what was expected
 */
export function parseSize(text: string): number {
  const [, digits, unit] = SIZE.exec(text) ?? []
  if (digits === undefined) throw new RangeError(`${expectedSize(text)}, found "${text}"`)
  return Number(digits) * UNITS[unit as keyof typeof UNITS]
}

/** The clause for something that is no size; a number without a unit gets told so. */
export function expectedSize(found: unknown): string {
  const bare = typeof found === 'number' || (typeof found === 'string' && /^\d+$/.test(found))
  if (bare) return `expected a size with its unit, such as ${String(found)}B or ${String(found)}KiB`
  return 'expected a size such as 512B, 16KiB, 8MiB or 1GiB'
}

/** @param bytes a whole number; written in the largest unit that leaves no remainder */
export function serializeSize(bytes: number): string {
  for (const [unit, size] of Object.entries(UNITS)) {
    if (bytes !== 0 && bytes % size === 0) return `${bytes / size}${unit}`
  }
  return `${bytes}B`
}
