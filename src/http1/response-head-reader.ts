/**
 * The head of a response, read off a connection that may stop being HTTP behind it: bytes in, heads out, without I/O
 * and without timers (RFC 9112 §4, §5).
 *
 * It reads no content, because an answer to CONNECT has none that counts: what follows a 2xx is the tunnel, whatever
 * its framing fields say (RFC 9110 §9.3.6). Every line is held to what a request's lines are held to.
 */
import { ProxyError } from '../errors.js'
import { type Fields, parseFieldLine } from '../http/fields.js'
import { ByteQueue } from './byte-queue.js'

export interface ReceivedHead {
  readonly status: number
  /** As received: visible characters, blanks and bytes above 0x7f; '' when there is none. */
  readonly reason: string
  readonly fields: Fields
}

/** The blank behind the status code is left out by some when there is no reason. */
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: ([\t\x20-\x7e\x80-\xff]*))?$/

export class ResponseHeadReader {
  readonly #maxBytes: number
  readonly #input = new ByteQueue()
  #begun: { readonly status: number; readonly reason: string } | undefined
  #fields: string[] = []
  #bytes = 0

  /** @param maxBytes of status line and field lines together, line ends not counted */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  push(chunk: Buffer): void {
    this.#input.push(chunk)
  }

  /** All bytes behind the last head, for whoever goes on with the connection. */
  takeRest(): Buffer {
    return this.#input.drain()
  }

  /**
   * @returns the next head, or undefined when more bytes are needed
   * @throws ProxyError 502 when it is too large, or no head of HTTP/1.0 or HTTP/1.1; nothing more can be read then
   */
  next(): ReceivedHead | undefined {
    try {
      return this.#next()
    } catch (cause) {
      if (!(cause instanceof ProxyError) || cause.side === 'upstream') throw cause
      throw new ProxyError('http_protocol_error', `${cause.message} in a response`, { cause })
    }
  }

  #next(): ReceivedHead | undefined {
    for (;;) {
      const line = this.#input.line(this.#maxBytes - this.#bytes, tooLarge)
      if (line === undefined) return undefined
      this.#bytes += line.length
      if (this.#begun === undefined) this.#begun = parseStatusLine(line)
      else if (line !== '') parseFieldLine(line, this.#fields)
      else {
        const head = { ...this.#begun, fields: this.#fields }
        this.#begun = undefined
        this.#fields = []
        this.#bytes = 0
        return head
      }
    }
  }
}

function parseStatusLine(line: string): { readonly status: number; readonly reason: string } {
  const [, status, reason = ''] = STATUS_LINE.exec(line) ?? []
  if (status === undefined) throw new ProxyError('http_protocol_error', 'bad status line in a response')
  return { status: Number(status), reason }
}

function tooLarge(): ProxyError {
  return new ProxyError('http_response_header_section_size', 'response header section too large')
}
