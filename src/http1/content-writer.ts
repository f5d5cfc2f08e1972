/** How content is put on the wire, in either direction (RFC 9112 §6, §7.1): what stands around a chunk, and the end. */
import { fieldId, type FieldSet, fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import type { ContentFraming } from './body-framing.js'

/** Written by the writers from what they know, whatever they are passed. */
const OWN_FIELDS = fieldSet(
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
)

/**
 * What stands in front of `bytes` of content in a chunk of their own (RFC 9112 §7.1).
 * @param bytes more than 0, because a chunk of no bytes ends the content
 */
export function chunkHead(bytes: number): string {
  return `${bytes.toString(16)}\r\n`
}

/** What stands behind the content of a chunk. */
export const CHUNK_END = '\r\n'

export class ContentWriter {
  /** How content follows the head; changed by writers alone. */
  framing: ContentFraming
  /** Bytes that are still to come, for the framing `length`. */
  protected remaining: number

  /** @param length bytes that the head declares, for the framing `length` */
  constructor(framing: ContentFraming, length = 0) {
    this.framing = framing
    this.remaining = length
  }

  /** Whether it has come to its end by itself: nothing is written behind its last byte, and none is missing. */
  get isWhole(): boolean {
    return this.framing !== 'chunked' && (this.framing !== 'length' || this.remaining === 0)
  }

  /**
   * So many more bytes of content are written.
   * @throws RangeError when there is more content than the head declares, or any where none may follow
   */
  count(bytes: number): void {
    if (this.framing !== 'length' && this.framing !== 'none') return
    if (bytes > this.remaining) throw new RangeError('more content than the head declares')
    this.remaining -= bytes
  }

  /**
   * What ends the content: the last chunk and the trailers, which only chunked content can carry (RFC 9112 §7.1.2).
   * @throws RangeError when content that the head declares is missing
   */
  end(trailers: Fields): string {
    if (this.isWhole) return ''
    if (this.framing === 'length') throw new RangeError('less content than the head declares')
    return `0\r\n${fieldLines(trailers)}\r\n`
  }
}

/**
 * The lines of all fields but those that a writer makes itself.
 * @param omitted further ones to leave out
 */
export function fieldLines(fields: Fields, omitted: FieldSet = 0): string {
  const unwanted = OWN_FIELDS | omitted
  let lines = ''
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if ((unwanted & (1 << fieldId(name))) === 0) lines += `${name}: ${fields[i + 1]}\r\n`
  }
  return lines
}
