/**
 * multipart/byteranges: several ranges of one representation in one response (RFC 9110 §14.6, §15.3.7.2).
 *
 * All delimiters and part headers are made in advance, so that the length of the content is known before the first
 * byte of the representation is read.
 */
import { type ByteRange, serializeContentRange } from './range.js'

export interface ByterangesSource {
  /** At least one, each within the representation. */
  readonly ranges: readonly ByteRange[]
  /** Length of the representation, in bytes. */
  readonly length: number
  /** Content-Type of the representation, which every part repeats; undefined when it has none. */
  readonly contentType: string | undefined
  /** Separates the parts: random, and long enough never to occur in the representation. */
  readonly boundary: string
}

export interface Byteranges {
  /** Content-Type of the response, which has no Content-Range of its own. */
  readonly contentType: string
  /** Length of the whole content, in bytes. */
  readonly contentLength: number
  /** For each range, in order, the bytes that precede its data. */
  readonly parts: readonly { readonly head: Buffer; readonly range: ByteRange }[]
  /** The bytes that follow the data of the last range. */
  readonly end: Buffer
}

/** The characters allowed in a boundary (RFC 2046 §5.1.1) and in a token, so that it needs no quotes. */
const BOUNDARY = /^[0-9A-Za-z'+_.-]{1,70}$/

/** @throws RangeError when the boundary is empty, too long, or contains a character that would need quotes */
export function serializeByteranges(source: ByterangesSource): Byteranges {
  const { ranges, length, contentType, boundary } = source
  if (!BOUNDARY.test(boundary)) throw new RangeError('bad multipart boundary')
  const type = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
  const parts = ranges.map((range, index) => {
    const delimiter = `${index === 0 ? '' : '\r\n'}--${boundary}\r\n`
    const contentRange = `Content-Range: ${serializeContentRange(range, length)}\r\n`
    return { head: Buffer.from(`${delimiter}${type}${contentRange}\r\n`, 'latin1'), range }
  })
  const end = Buffer.from(`\r\n--${boundary}--\r\n`, 'latin1')
  const contentLength = parts.reduce(
    (sum, { head, range }) => sum + head.length + range.last - range.first + 1,
    end.length,
  )
  return { contentType: `multipart/byteranges; boundary=${boundary}`, contentLength, parts, end }
}
