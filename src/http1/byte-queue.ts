/**
 * The bytes received and not read yet: lines are taken out as text, those of fields into a section, and content as
 * views of the chunks it came in.
 *
 * What waits is bounded by its bytes, and a piece costs some 170 bytes of memory beside those it holds. So small pieces
 * that have to wait are joined; a piece that is read before the next one comes is never copied.
 *
 * Lines end in CRLF and nothing else. A bare CR or a bare LF is where two recipients begin to disagree about what a
 * line is, so it is refused although RFC 9112 §2.2 would let a recipient be lenient. Each byte is looked at once,
 * however the input was cut.
 */
import { malformed, type ProxyError } from '../errors.js'
import type { FieldSection } from '../http/field-section.js'
import { HeldBytes } from './held-bytes.js'

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

/** A piece of fewer bytes that has to wait is copied to those before it: of a larger one its own cost is a small part. */
const JOIN_BELOW_BYTES = 1024
/** Joined pieces of so many bytes together are one that is complete. */
const JOINED_BYTES = 16 * 1024
/** How much of a chunk is turned into text at a time: most heads fit, and content behind them is not converted. */
const WINDOW_BYTES = 4096

const EMPTY = Buffer.alloc(0)

export class ByteQueue {
  #chunk: Buffer = EMPTY
  #offset = 0
  readonly #later: Buffer[] = []
  /** Small pieces, behind all of `#later`. */
  #joined: HeldBytes | undefined
  /** Of both. */
  #laterBytes = 0
  /** Text of #chunk from #windowStart on, so that a head costs one conversion and not one a line. */
  #window = ''
  #windowStart = 0
  /** The beginning of a line whose end has not come; its bytes are no longer counted in the chunk. */
  #partial: HeldBytes | undefined
  /** Where `nextLine` found its line: from `start` to `end` of `text`, so that whoever reads on in it copies nothing. */
  text = ''
  start = 0
  end = 0

  /** Bytes pushed since it was made. */
  received = 0

  /** Bytes held that nobody has read. */
  get length(): number {
    return (this.#partial?.length ?? 0) + this.#chunk.length - this.#offset + this.#laterBytes
  }

  /** The first byte that nobody has read. Not to be called inside a line. */
  peek(): number | undefined {
    return this.#chunk[this.#offset] ?? this.#later[0]?.[0] ?? this.#joined?.all[0]
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.received += chunk.length
    if (this.#offset < this.#chunk.length || this.#laterBytes > 0) this.#keep(chunk)
    else this.#use(chunk)
  }

  /**
   * The next line without its CRLF, or undefined when its end has not come.
   * @param limit bytes a line may have, CRLF not counted
   * @param tooLong makes the error for a longer one, of which it gets what there is
   * @throws ProxyError when the line is too long or holds a bare CR or LF
   */
  line(limit: number, tooLong: (begun: string) => ProxyError): string | undefined {
    return this.nextLine(limit, tooLong) ? this.text.slice(this.start, this.end) : undefined
  }

  /**
   * The same, with the line left where it is: `text`, `start` and `end` say where, until the next call.
   * @returns false when its end has not come
   */
  nextLine(limit: number, tooLong: (begun: string) => ProxyError): boolean {
    for (;;) {
      if (this.#offset === this.#chunk.length && (this.#laterBytes === 0 || !this.#advance())) return false
      if (this.#offset >= this.#windowStart + this.#window.length) {
        const windowEnd = Math.min(this.#chunk.length, this.#offset + WINDOW_BYTES)
        this.#window = this.#chunk.toString('latin1', this.#offset, windowEnd)
        this.#windowStart = this.#offset
      }
      const window = this.#window
      const start = this.#offset - this.#windowStart
      const end = window.indexOf('\n', start)
      const found = end === -1 ? window.length : end
      // A line of `limit` bytes has its CR at `limit` and its LF behind that.
      if ((this.#partial?.length ?? 0) + found - start > limit + 1) {
        throw tooLong(this.#begun() + window.slice(start, found))
      }
      if (end !== -1) {
        this.#offset += end + 1 - start
        if (this.#partial === undefined) {
          this.text = window
          this.start = start
          this.end = end - 1
        } else {
          this.text = this.#begun() + window.slice(start, end)
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
      this.#partial ??= new HeldBytes()
      this.#partial.push(this.#chunk.subarray(this.#offset, next))
      this.#offset = next
    }
  }

  /**
   * Reads as many field lines as have come (RFC 9112 §5), within what they may cost (RFC 6585 §5).
   * @param section the fields read so far, which further ones are added to
   * @param before bytes of the head in front of its fields, which count as theirs
   * @returns whether the empty line behind the fields has come
   * @throws ProxyError 400 for what is no field line, and what `past` makes
   */
  readFields(section: FieldSection, limits: FieldLimits, past: PastLimits, before = 0): boolean {
    for (;;) {
      if (!this.nextLine(limits.headerBytes - before - section.bytes, past.tooLarge)) return false
      if (this.start === this.end) return true
      if (section.count >= limits.headerFields) throw past.tooMany()
      section.read(this.text, this.start, this.end)
    }
  }

  /** Up to `max` bytes, as a view of what was pushed; undefined when there are none. */
  take(max: number): Buffer | undefined {
    if (this.#offset === this.#chunk.length && !this.#advance()) return undefined
    const end = Math.min(this.#chunk.length, this.#offset + max)
    const taken =
      this.#offset === 0 && end === this.#chunk.length ? this.#chunk : this.#chunk.subarray(this.#offset, end)
    this.#offset = end
    return taken
  }

  /** Everything that is left, in order; nothing is left behind. Not to be called inside a line. */
  drain(): Buffer {
    this.#endJoined()
    const parts = [this.#chunk.subarray(this.#offset), ...this.#later]
    this.#later.length = 0
    this.#laterBytes = 0
    this.#use(EMPTY)
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }

  /** Behind everything that waits. */
  #keep(chunk: Buffer): void {
    this.#laterBytes += chunk.length
    if (chunk.length >= JOIN_BELOW_BYTES) {
      this.#endJoined()
      this.#later.push(chunk)
      return
    }
    this.#joined ??= new HeldBytes()
    this.#joined.push(chunk)
    if (this.#joined.length >= JOINED_BYTES) this.#endJoined()
  }

  #endJoined(): void {
    if (this.#joined !== undefined) this.#later.push(this.#joined.all)
    this.#joined = undefined
  }

  /** What there is of a line whose end has not come. */
  #begun(): string {
    return this.#partial?.all.toString('latin1') ?? ''
  }

  #advance(): boolean {
    if (this.#later.length === 0) this.#endJoined()
    const next = this.#later.shift()
    if (next === undefined) return false
    this.#laterBytes -= next.length
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
