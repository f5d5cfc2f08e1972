/**
 * Sets of TCP ports in the configuration: numbers, ranges, or `any`.
 *
 * A set is stored as sorted and merged ranges, so that equal sets have equal values.
 */

/** A range of ports, including both ends. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

export type PortSet = readonly PortRange[]

const MAX_PORT = 65535
const RANGE = /^([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?$/

/**
 * @param list numbers from 1 to 65535, as numbers or text, `"8000-8100"`, or `"any"`; an empty list is the empty set
 * @throws RangeError whose message says what was expected
 */
export function parsePorts(list: readonly (number | string)[]): PortSet {
  const ranges = list.map(parseRange).sort((a, b) => a.first - b.first)
  const merged: PortRange[] = []
  for (const range of ranges) {
    const before = merged[merged.length - 1]
    if (before === undefined || range.first > before.last + 1) merged.push(range)
    else merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) }
  }
  return merged
}

export function portsContain(set: PortSet, port: number): boolean {
  return set.some(range => range.first <= port && port <= range.last)
}

/** For messages: `443`, `80, 8000-8100`, `any`, or `no port`. */
export function serializePorts(set: PortSet): string {
  if (set.length === 0) return 'no port'
  return set.map(textOf).join(', ')
}

function textOf({ first, last }: PortRange): string {
  if (first === last) return String(first)
  return first === 1 && last === MAX_PORT ? 'any' : `${first}-${last}`
}

function parseRange(item: number | string): PortRange {
  if (item === 'any') return { first: 1, last: MAX_PORT }
  const match = RANGE.exec(String(item))
  const first = Number(match?.[1])
  const last = Number(match?.[2] ?? match?.[1])
  if (!(first <= last && last <= MAX_PORT)) {
    const found = typeof item === 'string' ? `"${item}"` : String(item)
    throw new RangeError(
      `expected a port from 1 to ${MAX_PORT}, a range such as "8000-8100", or "any", found ${found}`,
    )
  }
  return { first, last }
}
