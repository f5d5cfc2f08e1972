/**
 * The chunked transfer coding, parsed incrementally (RFC 9112 §7.1).
 *
 * A size must consist of hexadecimal digits only. Chunk extensions are checked and dropped. Extensions and the trailer
 * section are limited for the whole message, because unlimited ones cost the sender nothing (RFC 9112 §7.1.1). The
 * boundaries of chunks have no meaning, so the content of small chunks that were received together is joined.
 */
import { malformed, ProxyError } from '../errors.js'
import { FieldSection } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import type { ByteQueue, FieldLimits } from './byte-queue.js'
import { GrowableBuffer } from './growable-buffer.js'

/** Passing on a piece costs as much as copying some thousand bytes: smaller ones are joined with those that follow. */
const JOIN_BELOW_BYTES = 4096
/** Pieces are joined up to this size. */
const JOINED_BYTES = 16 * 1024
const SIZE = /^[0-9A-Fa-f]+/
/** 13 digits stay below 2^53; more are an overflow or padding, and both are rejected. */
const MAX_SIZE_DIGITS = 13
/** The longest chunk line, and the total length of all extensions in one message. */
const MAX_LINE_BYTES = 1024
const MAX_EXTENSION_BYTES = 4096
const EXTENSIONS =
  /^(?:[ \t]*;[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t]*=[ \t]*(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"))?)*$/

type State = 'size' | 'data' | 'data-end' | 'trailers' | 'end'

export class ChunkedReader {
  readonly #limits: FieldLimits
  readonly #refused: ReadonlySet<string>
  #state: State = 'size'
  #remaining = 0
  #extensionBytes = 0
  readonly #trailers = new FieldSection()
  /** An error found after the content that was returned last; thrown by the next call. */
  #failure: { readonly error: unknown } | undefined

  /**
   * @param limits of the trailer section, which may be as large as a header section
   * @param refused names, in lower case, that make a trailer section malformed
   */
  constructor(limits: FieldLimits, refused: ReadonlySet<string>) {
    this.#limits = limits
    this.#refused = refused
  }

  /** The trailer fields; complete once `next` has returned 'end'. */
  get trailers(): Fields {
    return this.#trailers.list
  }

  /**
   * @returns a piece of content; 'end' after the trailer section; undefined when more input is needed
   * @throws ProxyError 400, or 431 for a trailer section that exceeds the limits of a header section
   */
  next(input: ByteQueue): Buffer | 'end' | undefined {
    if (this.#failure !== undefined) throw this.#failure.error
    const first = this.#take(input)
    if (!(first instanceof Buffer) || first.length >= JOIN_BELOW_BYTES) return first
    const second = this.#takeNext(input)
    return second === undefined ? first : this.#join(first, second, input)
  }

  #join(first: Buffer, second: Buffer, input: ByteQueue): Buffer {
    const joined = new GrowableBuffer()
    joined.push(first)
    for (let piece: Buffer | undefined = second; piece !== undefined; piece = this.#takeNext(input)) {
      joined.push(piece)
      if (joined.length >= JOINED_BYTES) break
    }
    return joined.all
  }

  /** The next piece of content, if one was received; an error in it is thrown after the content before was returned. */
  #takeNext(input: ByteQueue): Buffer | undefined {
    try {
      const piece = this.#take(input)
      return piece === 'end' ? undefined : piece
    } catch (error) {
      this.#failure = { error }
      return undefined
    }
  }

  /** A piece of content from one chunk. */
  #take(input: ByteQueue): Buffer | 'end' | undefined {
    for (;;) {
      switch (this.#state) {
        case 'size': {
          const line = input.line(MAX_LINE_BYTES, () => malformed('chunk line too long'))
          if (line === undefined) return undefined
          this.#remaining = this.#parseSize(line)
          this.#state = this.#remaining === 0 ? 'trailers' : 'data'
          break
        }
        case 'data': {
          const data = input.take(this.#remaining)
          if (data === undefined) return undefined
          this.#remaining -= data.length
          if (this.#remaining === 0) this.#state = 'data-end'
          return data
        }
        case 'data-end': {
          const line = input.line(0, () => malformed('chunk data not followed by CRLF'))
          if (line === undefined) return undefined
          this.#state = 'size'
          break
        }
        case 'trailers': {
          if (!input.nextLine(this.#limits.headerBytes - this.#trailers.bytes, tooLarge)) return undefined
          if (input.start === input.end) this.#state = 'end'
          else this.#addTrailer(input)
          break
        }
        case 'end':
          return 'end'
      }
    }
  }

  #parseSize(line: string): number {
    const digits = SIZE.exec(line)?.[0] ?? ''
    if (digits === '' || digits.length > MAX_SIZE_DIGITS) throw malformed('bad chunk size')
    const extensions = line.slice(digits.length)
    this.#extensionBytes += extensions.length
    if (this.#extensionBytes > MAX_EXTENSION_BYTES) throw malformed('too many chunk extensions')
    if (extensions !== '' && !EXTENSIONS.test(extensions)) throw malformed('bad chunk extension')
    return Number.parseInt(digits, 16)
  }

  #addTrailer({ text, start, end }: ByteQueue): void {
    const trailers = this.#trailers
    if (trailers.count >= this.#limits.headerFields) throw tooLarge()
    trailers.read(text, start, end)
    const name = trailers.list.at(-2) as string
    if (this.#refused.has(name.toLowerCase())) throw malformed('field not allowed in trailers')
  }
}

function tooLarge(): ProxyError {
  return new ProxyError('http_request_error', 'trailers too large', {
    status: 431,
    close: true,
    reason: 'header_bytes',
  })
}
