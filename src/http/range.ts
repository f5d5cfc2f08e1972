/**
 * Range, the bytes that a GET requests, and Content-Range, the bytes that a response contains (RFC 9110 §14.1.2, §14.2,
 * §14.4, §15.5.17).
 *
 * A field that is malformed, has another unit than bytes or requests too many ranges is ignored, as the section allows:
 * every client understands the whole representation. Overlapping ranges are merged, so that a short request cannot ask
 * for many times the stored bytes; the others stay separate and in the order requested.
 */
import { type Fields, fieldValues, trimOws } from './fields.js'
import type { Method } from './method.js'

/** Positions of the first and the last byte, both included. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

export type RangeDecision =
  /** 200 with the whole representation. */
  | { readonly kind: 'full' }
  /** 206 with one range. */
  | { readonly kind: 'single'; readonly range: ByteRange }
  /** 206 with at least two ranges, as multipart/byteranges. */
  | { readonly kind: 'multipart'; readonly ranges: readonly ByteRange[] }
  /** 416. */
  | { readonly kind: 'unsatisfiable' }

/** A field with more ranges than this is ignored. */
const MAX_RANGES = 16
const BYTES = /^bytes=([^ \t].*)$/i
const CONTENT_RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/i
const RANGE_SPEC = /^(\d*)-(\d*)$/
const FULL: RangeDecision = Object.freeze({ kind: 'full' })

/**
 * Must be called only when the response would otherwise be 200 and If-Range allows it (RFC 9110 §14.2).
 *
 * An empty representation is always sent whole: no range of it can be expressed, and a client that adds Range to every
 * request gets the representation instead of an error.
 * @param length length of the representation, in bytes
 */
export function decideRange(method: Method, fields: Fields, length: number): RangeDecision {
  const values = method === 'GET' && length > 0 ? fieldValues(fields, 'range') : []
  const [value] = values
  const specs = values.length === 1 && value !== undefined ? parseRangeSet(value) : undefined
  if (specs === undefined || specs.length > MAX_RANGES) return FULL
  const ranges = coalesce(specs.flatMap(spec => satisfy(spec, length)))
  const [range] = ranges
  if (range === undefined) return { kind: 'unsatisfiable' }
  return ranges.length === 1 ? { kind: 'single', range } : { kind: 'multipart', ranges }
}

/** The Content-Range of a single part: `bytes 0-499/1234` (RFC 9110 §14.4). */
export function serializeContentRange({ first, last }: ByteRange, length: number): string {
  return `bytes ${first}-${last}/${length}`
}

/** The position of a part: its bytes, and the length of the whole where that is known. */
export interface ContentRange extends ByteRange {
  readonly completeLength?: number
}

/**
 * @param value the value of Content-Range
 * @returns undefined when it is not a range of bytes, or not a possible one (RFC 9110 §14.4)
 */
export function parseContentRange(value: string): ContentRange | undefined {
  const match = CONTENT_RANGE.exec(value)
  if (match === null) return undefined
  const [first, last] = [Number(match[1]), Number(match[2])]
  if (last < first) return undefined
  if (match[3] === '*') return { first, last }
  const completeLength = Number(match[3])
  return last < completeLength ? { first, last, completeLength } : undefined
}

/** The Content-Range of a 416, with the length of the representation (RFC 9110 §14.4, §15.5.17). */
export function serializeUnsatisfiedRange(length: number): string {
  return `bytes */${length}`
}

/** Digits as received: `first` to `last`; without `last`, to the end; without `first`, the final `last` bytes. */
interface RangeSpec {
  readonly first: string
  readonly last: string
}

/** @returns undefined when a member is not a range, which makes the whole set invalid (RFC 9110 §14.1.1) */
function parseRangeSet(value: string): RangeSpec[] | undefined {
  const members = (BYTES.exec(value)?.[1] ?? '').split(',').map(trimOws)
  const specs: RangeSpec[] = []
  for (const member of members.filter(text => text !== '')) {
    const [, first = '', last = ''] = RANGE_SPEC.exec(member) ?? []
    if (first === '' && last === '') return undefined
    // Any number of digits is valid; BigInt compares also those above 2^53 exactly.
    if (first !== '' && last !== '' && BigInt(first) > BigInt(last)) return undefined
    specs.push({ first, last })
  }
  return specs.length === 0 ? undefined : specs
}

/** The range in a representation of `length` bytes, at least 1; none when it is beyond the end (RFC 9110 §14.1.2). */
function satisfy(spec: RangeSpec, length: number): ByteRange[] {
  const end = length - 1
  if (spec.first === '') {
    const count = Math.min(Number(spec.last), length)
    return count === 0 ? [] : [{ first: length - count, last: end }]
  }
  const first = Number(spec.first)
  const last = spec.last === '' ? end : Math.min(Number(spec.last), end)
  return first > end ? [] : [{ first, last }]
}

/** Merges overlapping ranges; the result takes the position of the earliest of them (RFC 9110 §15.3.7.2). */
function coalesce(ranges: readonly ByteRange[]): ByteRange[] {
  const merged: { first: number; last: number; place: number }[] = []
  const placed = ranges.map((range, place) => ({ ...range, place }))
  for (const range of placed.sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (before !== undefined && range.first <= before.last) {
      before.last = Math.max(before.last, range.last)
      before.place = Math.min(before.place, range.place)
    } else merged.push(range)
  }
  return merged.sort((a, b) => a.place - b.place).map(({ first, last }) => ({ first, last }))
}
