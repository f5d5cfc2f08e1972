/**
 * A connection of undici's pool that inspects the bytes it receives before undici parses them.
 *
 * undici does not report the version of a response, and reports only the last piece of a reason phrase that arrives in
 * several. It accepts `HTTP/2.0` and `RTSP/1.0` as HTTP/1.1 and a bare LF as an empty line, and limits neither status
 * lines nor chunk extensions. So status lines are parsed here, by the rules of our own reader, and bytes that bring no
 * content are counted.
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
  /** Bytes of the line and of the empty lines before it, which count towards the head. */
  readonly bytes: number
}

/** The request that a connection carries. */
export interface CarriedRequest {
  /** The response is invalid: the request fails with this error, and the connection is closed. */
  refuse(error: unknown): void
}

/** Bytes that may arrive without content in addition to a trailer section: its line ends, and chunk extensions. */
const MAX_OVERHEAD_BYTES = 8192

export class PooledConnection {
  readonly socket: Socket
  readonly where: string
  readonly address: string
  /** Milliseconds that connecting took; undefined once it has carried a request. */
  connectMs: number | undefined
  /** Whether it is closed as soon as it is idle. */
  closesWhenIdle = false
  /** Whether a byte of the response has been received. */
  hasBegun = false
  /** Bytes received since the status line that brought no content, counted in whole reads. */
  bytesWithoutContent = 0
  readonly #headerBytes: number
  #carried: CarriedRequest | undefined
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

  /** Starts to carry a request. */
  carry(request: CarriedRequest): void {
    this.#carried = request
    this.hasBegun = false
    this.bytesWithoutContent = 0
    this.#statusLines.expect()
  }

  /** The exchange has ended. */
  release(): void {
    this.#carried = undefined
  }

  /**
   * Returns the status line of the next head.
   * @param status the status code that undici has parsed
   * @throws ProxyError 502 if undici reports a head that was not found here
   */
  statusLine(status: number): FoundStatusLine {
    const line = this.#statusLines.found.shift()
    if (line?.status === status) return line
    throw badStatusLine()
  }

  /**
   * Parses the fields of a head or a trailer section.
   * @param before bytes of the head before them
   * @throws ProxyError 502 if a limit is exceeded, 400 for a malformed field
   */
  fields(raw: readonly Buffer[], before: number): FieldSection {
    if (raw.length > 2 * MAX_FIELDS) throw tooMany()
    const fields = FieldSection.ofBytes(raw)
    if (before + fields.bytes > this.#headerBytes) throw tooLarge()
    return fields
  }

  /** @returns whether the bytes may be passed to undici */
  #take(chunk: Buffer): boolean {
    const carried = this.#carried
    if (carried === undefined) {
      // Unsolicited bytes would be taken for the response to the next request, of any client (RFC 9112 §11.1).
      this.socket.destroy()
      return false
    }
    this.hasBegun = true
    try {
      if (!this.#statusLines.isComplete) this.#statusLines.push(chunk)
      else if (this.bytesWithoutContent > this.#headerBytes + MAX_OVERHEAD_BYTES) {
        throw new ProxyError('http_protocol_error', 'too many chunk extensions in a response')
      } else this.bytesWithoutContent += chunk.length
      return true
    } catch (error) {
      carried.refuse(error)
      return false
    }
  }
}

/** Finds the status lines of the responses to one request: those of interim responses and of the final one. */
class StatusLines {
  /** The lines that undici has not reported yet. */
  readonly found: FoundStatusLine[] = []
  /** Whether the last one was found: that of the final response, or of a 101. */
  isComplete = true
  readonly #headerBytes: number
  readonly #input = new ByteQueue()
  /** Bytes so far of the head that is being read. */
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

  /** @throws ProxyError 502 for an invalid status line, or one that exceeds the header limit; 400 for a bare LF */
  push(chunk: Buffer): void {
    const input = this.#input
    input.push(chunk)
    while (input.nextLine(this.#headerBytes - this.#bytes, tooLarge)) {
      const isEmpty = input.start === input.end
      if (isEmpty && this.#isInFields) {
        this.#isInFields = false
        this.#bytes = 0
      } else if (isEmpty) {
        // Empty lines before a status line are skipped, but counted (RFC 9112 §2.2).
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
    // After a 101 the connection is not HTTP any more.
    return line.status >= 200 || line.status === 101
  }
}
