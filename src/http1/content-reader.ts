/** Reads the content of the messages of one connection, from the bytes after their heads (RFC 9112 §6.3, §7.1). */
import type { Fields } from '../http/fields.js'
import type { ContentFraming } from './body-framing.js'
import type { ByteQueue, FieldLimits } from './byte-queue.js'
import { ChunkedReader } from './chunked-reader.js'

export type ContentEvent =
  | { readonly type: 'data'; readonly chunk: Buffer }
  | { readonly type: 'end'; readonly trailers: Fields }

const NO_TRAILERS: Fields = Object.freeze([])
/** The end of content without trailers. */
export const END: ContentEvent = Object.freeze({ type: 'end', trailers: NO_TRAILERS })

export class ContentReader {
  readonly #input: ByteQueue
  readonly #limits: FieldLimits
  readonly #refused: ReadonlySet<string>
  #framing: ContentFraming = 'none'
  #remaining = 0
  #chunked: ChunkedReader | undefined

  /**
   * @param limits of trailer sections
   * @param refused names, in lower case, that make a trailer section malformed
   */
  constructor(input: ByteQueue, limits: FieldLimits, refused: ReadonlySet<string>) {
    this.#input = input
    this.#limits = limits
    this.#refused = refused
  }

  /** Called after each head. @param length length of the content in bytes, for the framing `length` */
  begin(framing: ContentFraming, length: number): void {
    this.#framing = length === 0 && framing === 'length' ? 'none' : framing
    this.#remaining = length
    this.#chunked = framing === 'chunked' ? new ChunkedReader(this.#limits, this.#refused) : undefined
  }

  /** Whether the connection may end here without loss: the content ends with it, or has already ended. */
  get mayEnd(): boolean {
    return this.#framing === 'none' || this.#framing === 'until-close'
  }

  /**
   * @returns undefined when more bytes are needed; must not be called between the end of a message and the next head
   * @throws ProxyError 400 or 431 for malformed chunks and trailers
   */
  next(): ContentEvent | undefined {
    switch (this.#framing) {
      case 'none':
        return END
      case 'length': {
        const chunk = this.#input.take(this.#remaining)
        if (chunk === undefined) return undefined
        this.#remaining -= chunk.length
        if (this.#remaining === 0) this.#framing = 'none'
        return { type: 'data', chunk }
      }
      case 'chunked': {
        const piece = this.#chunked?.next(this.#input)
        if (piece === undefined) return undefined
        if (piece !== 'end') return { type: 'data', chunk: piece }
        return { type: 'end', trailers: this.#chunked?.trailers ?? NO_TRAILERS }
      }
      case 'until-close': {
        const chunk = this.#input.take(Number.MAX_SAFE_INTEGER)
        return chunk && { type: 'data', chunk }
      }
    }
  }
}
