/**
 * A connection of undici's pool, which looks at the bytes that come on it before undici reads them.
 *
 * undici says neither which version a response has nor its reason phrase as it came, of whose pieces it keeps the last.
 * It takes `HTTP/2.0` and `RTSP/1.0` for HTTP/1.1 and a bare LF for an empty line, and bounds neither a status line nor
 * chunk extensions. So status lines are read here, by the rules of our own reader, and what brings no content is counted.
 */
import type { Socket } from 'node:net'
import { ProxyError } from '../errors.js'
import { FieldSection } from '../http/field-section.js'
import { ByteQueue } from '../http1/byte-queue.js'
import {
  badStatusLine,
  parseStatusLine,
  type StatusLine,
  tooLarge,
  tooMany,
} from '../http1/response-reader.js'
import type { Connection } from './dial.js'
import { MAX_FIELDS } from './http1-sender.js'

export interface FoundStatusLine extends StatusLine {
  /** Of the line and of empty lines in front of it, which count as those of the head. */
  readonly bytes: number
}

/** The request that a connection carries. */
export interface Carried {
  /** What has come is not taken, and the connection is closed. */
  refuse(error: unknown): void
}

/** Bytes that may come without content, beside those of a trailer section: its line ends, and chunk extensions. */
const BESIDE_TRAILERS_BYTES = 8192

export class PooledConnection {
  readonly socket: Socket
  readonly where: string
  readonly address: string
  /** Undefined once it has carried a request. */
  connectMs: number | undefined
  /** Whether it is to be closed once it is idle. */
  isUnwanted = false
  /** Whether a byte has come in answer to what it carries. */
  hasBegun = false
  /** Bytes in whole pieces behind the status line that have brought no content. */
  bytesWithoutContent = 0
  readonly #headerBytes: number
  #carried: Carried | undefined
  readonly #statusLines: StatusLines

  constructor({ socket, where, address, connectMs }: Connection, headerBytes: number) {
    this.socket = socket
    this.where = where
    this.address = address.text
    this.connectMs = connectMs
    this.#headerBytes = headerBytes
    this.#statusLines = new StatusLines(headerBytes)
    const { read } = socket
    socket.read = size => {
      const chunk: unknown = read.call(socket, size)
      return chunk instanceof Buffer && !this.#take(chunk) ? null : chunk
    }
  }

  get isBusy(): boolean {
    return this.#carried !== undefined
  }

  /** A request goes out on it. */
  carry(request: Carried): void {
    this.#carried = request
    this.hasBegun = false
    this.bytesWithoutContent = 0
    this.#statusLines.expect()
  }

  /** What it carried is over. */
  release(): void {
    this.#carried = undefined
  }

  /**
   * The status line of the next head.
   * @param status what undici has read
   * @throws ProxyError 502 when undici has found a head where none was
   */
  statusLine(status: number): FoundStatusLine {
    const line = this.#statusLines.found.shift()
    if (line?.status === status) return line
    throw badStatusLine()
  }

  /**
   * The fields of a head or a trailer section.
   * @param before bytes of the head in front of them
   * @throws ProxyError past the limits, 400 for what is no field
   */
  fields(raw: readonly Buffer[], before: number): FieldSection {
    if (raw.length > 2 * MAX_FIELDS) throw tooMany()
    const fields = FieldSection.ofBytes(raw)
    if (before + fields.bytes > this.#headerBytes) throw tooLarge()
    return fields
  }

  /** @returns whether undici may have it */
  #take(chunk: Buffer): boolean {
    const carried = this.#carried
    if (carried === undefined) {
      // Nobody asked for it, so it would be the answer to the next request, whoever sends it (RFC 9112 §11.1).
      this.socket.destroy()
      return false
    }
    this.hasBegun = true
    try {
      if (!this.#statusLines.isComplete) this.#statusLines.push(chunk)
      else if (this.bytesWithoutContent > this.#headerBytes + BESIDE_TRAILERS_BYTES) {
        throw new ProxyError('http_protocol_error', 'too many chunk extensions in a response')
      } else this.bytesWithoutContent += chunk.length
      return true
    } catch (error) {
      carried.refuse(error)
      return false
    }
  }
}

/** The status lines in answer to one request: those of interim responses, and the final one. */
class StatusLines {
  /** Those that undici has not come to yet. */
  readonly found: FoundStatusLine[] = []
  /** Whether the final one was found, or one behind which no other follows. */
  isComplete = true
  readonly #headerBytes: number
  readonly #input = new ByteQueue()
  /** Of the head that is being read. */
  #bytes = 0
  #isInFields = false

  constructor(headerBytes: number) {
    this.#headerBytes = headerBytes
  }

  expect(): void {
    this.found.length = 0
    this.isComplete = false
    this.#bytes = 0
    this.#isInFields = false
  }

  /** @throws ProxyError 502 for what is no status line, or a longer one than a header section may be; 400 for a bare LF */
  push(chunk: Buffer): void {
    const input = this.#input
    input.push(chunk)
    while (input.nextLine(this.#headerBytes - this.#bytes, tooLarge)) {
      const isEmpty = input.start === input.end
      if (isEmpty && this.#isInFields) {
        this.#isInFields = false
        this.#bytes = 0
      } else if (isEmpty) {
        // Empty lines in front of a status line are skipped, and count (RFC 9112 §2.2).
        this.#bytes += 2
      } else {
        this.#bytes += input.end - input.start
        if (!this.#isInFields && this.#isFinal(input.text.slice(input.start, input.end))) {
          this.isComplete = true
          input.drain()
          return
        }
        this.#isInFields = true
      }
    }
  }

  #isFinal(text: string): boolean {
    const line = parseStatusLine(text)
    this.found.push({ ...line, bytes: this.#bytes })
    // What is behind 101 is not HTTP.
    return line.status >= 200 || line.status === 101
  }
}
