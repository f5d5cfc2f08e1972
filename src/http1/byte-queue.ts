/**
 * A queue of bytes that were received and not yet read: lines are taken as text, field lines into a section, and
 * content as views of the chunks in which it was received.
 *
 * The queue is limited by the bytes in it, but each chunk costs about 170 bytes of memory in addition to its data. So
 * small chunks that have to wait are joined; a chunk that is read before the next one arrives is never copied.
 *
 * Lines must end in CRLF. Recipients disagree on whether a bare CR or LF ends a line, so both are rejected although
 * RFC 9112 §2.2 would permit leniency. Each byte is examined once, however the input was divided into chunks.
 */
import { malformed, type ProxyError } from '../errors.js'
import type { FieldSection } from '../http/field-section.js'
import { GrowableBuffer } from './growable-buffer.js'

/** The maximum size of a header or trailer section. */
export interface FieldLimits {
  /** Length of all field lines together in bytes, without line ends. */
  readonly headerBytes: number
  /** Number of field lines. */
  readonly headerFields: number
}

/** The maximum size of a request head; a section beyond its limits is answered with 431. */
export interface HeadLimits extends FieldLimits {
  /** Length of the request target in bytes; a longer one is answered with 414 (RFC 9112 §3). */
  readonly targetBytes: number
}

/** Creates the errors for a section that exceeds its limits. */
export interface LimitErrors {
  readonly tooLarge: () => ProxyError
  readonly tooMany: () => ProxyError
}

/**
 * A shorter chunk that has to wait is copied and joined; for a longer one the cost of an object is small in comparison.
 */
const JOIN_BELOW_BYTES = 1024
/** Joined chunks are completed at this many bytes. */
const JOINED_BYTES = 16 * 1024
/** How much of a chunk is converted to text at a time: enough for most heads, so that little content is converted. */
const WINDOW_BYTES = 4096

const EMPTY = Buffer.alloc(0)

export class ByteQueue {
  #chunk: Buffer = EMPTY
  #offset = 0
  readonly #waiting: Buffer[] = []
  /** Small chunks, which come after all of `#waiting`. */
  #joined: GrowableBuffer | undefined
  /** The bytes in `#waiting` and `#joined`. */
  #waitingBytes = 0
  /** The text of #chunk from #windowStart on, so that a head needs one conversion and not one for each line. */
  #window = ''
  #windowStart = 0
  /** The beginning of a line whose end has not been received; #chunk no longer counts its bytes. */
  #partial: GrowableBuffer | undefined
  /**
   * Where `nextLine` found its line: from `start` to `end` of `text`, so that its caller can parse it without a copy.
   */
  text = ''
  start = 0
  end = 0

  /** All bytes that were ever pushed. */
  received = 0

  /** Bytes that were not read yet. */
  get length(): number {
    return (this.#partial?.length ?? 0) + this.#chunk.length - this.#offset + this.#waitingBytes
  }

  /** The first byte that was not read yet. Must not be called within a line. */
  peek(): number | undefined {
    return this.#chunk[this.#offset] ?? this.#waiting[0]?.[0] ?? this.#joined?.all[0]
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.received += chunk.length
    if (this.#offset < this.#chunk.length || this.#waitingBytes > 0) this.#keep(chunk)
    else this.#use(chunk)
  }

  /**
   * The next line without its CRLF, or undefined when its end was not received yet.
   * @param limit the maximum length of the line in bytes, without CRLF
   * @param tooLong creates the error for a longer line, from the part received so far
   * @throws ProxyError when the line is too long or contains a bare CR or LF
   */
  line(limit: number, tooLong: (begun: string) => ProxyError): string | undefined {
    return this.nextLine(limit, tooLong) ? this.text.slice(this.start, this.end) : undefined
  }

  /**
   * As `line`, but without a copy: `text`, `start` and `end` give the position of the line until the next call.
   * @returns false when the end of the line was not received yet
   */
  nextLine(limit: number, tooLong: (begun: string) => ProxyError): boolean {
    for (;;) {
      if (this.#offset === this.#chunk.length && (this.#waitingBytes === 0 || !this.#advance())) return false
      if (this.#offset >= this.#windowStart + this.#window.length) {
        const windowEnd = Math.min(this.#chunk.length, this.#offset + WINDOW_BYTES)
        this.#window = this.#chunk.toString('latin1', this.#offset, windowEnd)
        this.#windowStart = this.#offset
      }
      const window = this.#window
      const start = this.#offset - this.#windowStart
      const end = window.indexOf('\n', start)
      const found = end === -1 ? window.length : end
      // A line of `limit` bytes has its CR at position `limit`, followed by LF.
      if ((this.#partial?.length ?? 0) + found - start > limit + 1) {
        throw tooLong(this.#partialText() + window.slice(start, found))
      }
      if (end !== -1) {
        this.#offset += end + 1 - start
        if (this.#partial === undefined) {
          this.text = window
          this.start = start
          this.end = end - 1
        } else {
          this.text = this.#partialText() + window.slice(start, end)
          this.start = 0
          this.end = this.text.length - 1
          this.#partial = undefined
        }
        if (this.end < this.start || this.text.indexOf('\r', this.start) !== this.end) {
          throw malformed('bare CR or LF')
        }
        return true
      }
      const next = this.#windowStart + window.length
      this.#partial ??= new GrowableBuffer()
      this.#partial.push(this.#chunk.subarray(this.#offset, next))
      this.#offset = next
    }
  }

  /**
   * Reads the field lines received so far (RFC 9112 §5), within their limits (RFC 6585 §5).
   * @param section the fields read so far; further ones are added to it
   * @param before length in bytes of the part of the head before its fields, which is counted with them
   * @returns whether the empty line after the fields was received
   * @throws ProxyError 400 for a line that is not a field line, and the errors of `errors`
   */
  readFields(section: FieldSection, limits: FieldLimits, errors: LimitErrors, before = 0): boolean {
    for (;;) {
      if (!this.nextLine(limits.headerBytes - before - section.bytes, errors.tooLarge)) return false
      if (this.start === this.end) return true
      if (section.count >= limits.headerFields) throw errors.tooMany()
      section.read(this.text, this.start, this.end)
    }
  }

  /** Up to `max` bytes, as a view of a chunk; undefined when the queue is empty. */
  take(max: number): Buffer | undefined {
    if (this.#offset === this.#chunk.length && !this.#advance()) return undefined
    const end = Math.min(this.#chunk.length, this.#offset + max)
    const taken =
      this.#offset === 0 && end === this.#chunk.length ? this.#chunk : this.#chunk.subarray(this.#offset, end)
    this.#offset = end
    return taken
  }

  /** Removes and returns all bytes that were not read. Must not be called within a line. */
  drain(): Buffer {
    this.#endJoined()
    const parts = [this.#chunk.subarray(this.#offset), ...this.#waiting]
    this.#waiting.length = 0
    this.#waitingBytes = 0
    this.#use(EMPTY)
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }

  /** Appends a chunk to those that wait. */
  #keep(chunk: Buffer): void {
    this.#waitingBytes += chunk.length
    if (chunk.length >= JOIN_BELOW_BYTES) {
      this.#endJoined()
      this.#waiting.push(chunk)
      return
    }
    this.#joined ??= new GrowableBuffer()
    this.#joined.push(chunk)
    if (this.#joined.length >= JOINED_BYTES) this.#endJoined()
  }

  #endJoined(): void {
    if (this.#joined !== undefined) this.#waiting.push(this.#joined.all)
    this.#joined = undefined
  }

  /** The part received so far of a line that is not complete. */
  #partialText(): string {
    return this.#partial?.all.toString('latin1') ?? ''
  }

  #advance(): boolean {
    if (this.#waiting.length === 0) this.#endJoined()
    const next = this.#waiting.shift()
    if (next === undefined) return false
    this.#waitingBytes -= next.length
    this.#use(next)
    return true
  }

  #use(chunk: Buffer): void {
    this.#chunk = chunk
    this.#offset = 0
    this.#window = ''
    this.#windowStart = 0
  }
}
