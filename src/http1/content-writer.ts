/** Writes content in either direction (RFC 9112 §6, §7.1): the bytes around a chunk, and those at the end. */
import { fieldId, type FieldSet, fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import type { ContentFraming } from './body-framing.js'

/** Fields that the writers generate themselves; those passed to them are ignored. */
const OWN_FIELDS = fieldSet(
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
)

/**
 * The bytes before a chunk's data (RFC 9112 §7.1).
 * @param bytes length of the data, more than 0, because an empty chunk ends the content
 */
export function chunkHead(bytes: number): string {
  return `${bytes.toString(16)}\r\n`
}

/** The bytes after a chunk's data. */
export const CHUNK_END = '\r\n'

export class ContentWriter {
  /** How content follows the head; only the writers change it. */
  framing: ContentFraming
  /** Bytes of content that are still missing, for the framing `length`. */
  protected remaining: number

  /** @param length the length in bytes that the head declares, for the framing `length` */
  constructor(framing: ContentFraming, length = 0) {
    this.framing = framing
    this.remaining = length
  }

  /** Whether the content needs no further bytes: its end has no mark of its own, and no declared byte is missing. */
  get isComplete(): boolean {
    return this.framing !== 'chunked' && (this.framing !== 'length' || this.remaining === 0)
  }

  /**
   * Counts content that is written.
   * @throws RangeError when there is more content than the head declares, or content where none is allowed
   */
  count(bytes: number): void {
    if (this.framing !== 'length' && this.framing !== 'none') return
    if (bytes > this.remaining) throw new RangeError('more content than the head declares')
    this.remaining -= bytes
  }

  /**
   * The bytes that end the content: the last chunk and the trailers, which only chunked content has (RFC 9112 §7.1.2).
   * @throws RangeError when some of the declared content is missing
   */
  end(trailers: Fields): string {
    if (this.isComplete) return ''
    if (this.framing === 'length') throw new RangeError('less content than the head declares')
    return `0\r\n${fieldLines(trailers)}\r\n`
  }
}

/**
 * The lines of all fields except those that the writers generate.
 * @param omitted further fields to omit
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
