/** The field lines of a head, within what they may cost (RFC 9112 §5; RFC 6585 §5). */
import type { ProxyError } from '../errors.js'
import type { FieldSection } from '../http/field-section.js'
import type { ByteQueue } from './byte-queue.js'

/** What a header or a trailer section may cost before it is refused. */
export interface FieldLimits {
  /** Bytes of all field lines together, line ends not counted. */
  readonly headerBytes: number
  /** Number of field lines. */
  readonly headerFields: number
}

/** What a request head may cost: 431 past the limits of its fields. */
export interface HeadLimits extends FieldLimits {
  /** Bytes of the request target: 414 past it (RFC 9112 §3). */
  readonly targetBytes: number
}

/** Makes the errors for what is past the limits. */
export interface PastLimits {
  readonly tooLarge: () => ProxyError
  readonly tooMany: () => ProxyError
}

/**
 * Reads as many lines as have come.
 * @param section the fields read so far, which further ones are added to
 * @param before bytes of the head in front of its fields, which count as theirs
 * @returns whether the empty line behind the fields has come
 * @throws ProxyError 400 for what is no field line, and what `past` makes
 */
export function readFieldLines(
  input: ByteQueue,
  section: FieldSection,
  limits: FieldLimits,
  past: PastLimits,
  before = 0,
): boolean {
  for (;;) {
    if (!input.nextLine(limits.headerBytes - before - section.bytes, past.tooLarge)) return false
    const { text, start, end } = input
    if (start === end) return true
    if (section.count >= limits.headerFields) throw past.tooMany()
    section.read(text, start, end)
  }
}
