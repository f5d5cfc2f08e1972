/**
 * The request reader: bytes in, events out, without I/O and without timers (RFC 9112 §2 to §7).
 *
 * It is pulled: whoever drives it asks for the next event when ready for it, so a second request on a connection is
 * not even parsed while the first is unanswered, and its errors can not overtake the answers already owed. The
 * same bytes give the same events and the same error, however they were cut.
 */
import { malformed, ProxyError } from '../errors.js'
import { type Fields, parseFieldLine } from '../http/fields.js'
import { isToken } from '../http/token.js'
import { type BodyFraming, decideRequestFraming, NO_CONTENT } from './body-framing.js'
import { ByteQueue } from './byte-queue.js'
import { ChunkedReader } from './chunked-reader.js'
import type { HeadLimits } from './head-limits.js'

/** A request head as received. `minor` is 1 for every HTTP/1.x with x above 0 (RFC 9110 §2.5). */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: Fields
  readonly framing: BodyFraming
}

export type RequestEvent =
  | { readonly type: 'head'; readonly head: RequestHead }
  | { readonly type: 'data'; readonly chunk: Buffer }
  | { readonly type: 'end'; readonly trailers: Fields }

const END: RequestEvent = Object.freeze({ type: 'end', trailers: Object.freeze([]) })

/** Room in the request line for the method, two spaces and the version, beside the target. */
const REQUEST_LINE_SLACK = 64
/** Empty lines a sloppy client may send in front of a request line (RFC 9112 §2.2). */
const MAX_LEADING_EMPTY_LINES = 2
/** What of that room is the method's: no known one is near it. */
const MAX_METHOD_BYTES = REQUEST_LINE_SLACK - '  HTTP/1.1'.length
const VISIBLE_ASCII = /^[\x21-\x7e]+$/
const VERSION = /^HTTP\/(\d)\.(\d)$/

type State = 'request-line' | 'fields' | 'length' | 'chunked' | 'end' | 'failed'

export class RequestReader {
  readonly #limits: HeadLimits
  readonly #input = new ByteQueue()
  #state: State = 'request-line'
  #emptyLines = 0
  #method = ''
  #target = ''
  #minor: 0 | 1 = 1
  #fields: string[] = []
  #fieldBytes = 0
  #remaining = 0
  #chunked: ChunkedReader | undefined

  constructor(limits: HeadLimits) {
    this.#limits = limits
  }

  /** Bytes pushed and not read. */
  get buffered(): number {
    return this.#input.length
  }

  /** Whether a request has begun and its head is not complete. */
  get inHead(): boolean {
    return this.#state === 'fields' || (this.#state === 'request-line' && this.#input.length > 0)
  }

  /** Method and target of the request being read, for the log of one that never became whole; '' before them. */
  get partial(): { readonly method: string; readonly target: string } {
    return { method: this.#method, target: this.#target }
  }

  push(chunk: Buffer): void {
    this.#input.push(chunk)
  }

  /** All bytes not read, for a connection that stops being HTTP (after CONNECT or Upgrade). */
  takeRest(): Buffer {
    this.#state = 'failed'
    return this.#input.drain()
  }

  /**
   * @returns the next event, or undefined when more bytes are needed
   * @throws ProxyError 400, 414, 431, 501 or 505; after that the reader gives nothing more
   */
  next(): RequestEvent | undefined {
    try {
      return this.#next()
    } catch (error) {
      this.#state = 'failed'
      throw error
    }
  }

  #next(): RequestEvent | undefined {
    switch (this.#state) {
      case 'request-line':
        if (!this.#readRequestLine()) return undefined
        return this.#readFields()
      case 'fields':
        return this.#readFields()
      case 'length': {
        const chunk = this.#input.take(this.#remaining)
        if (chunk === undefined) return undefined
        this.#remaining -= chunk.length
        if (this.#remaining === 0) this.#state = 'end'
        return { type: 'data', chunk }
      }
      case 'chunked': {
        const chunked = this.#chunked as ChunkedReader
        const piece = chunked.next(this.#input)
        if (piece === undefined) return undefined
        if (piece !== 'end') return { type: 'data', chunk: piece }
        this.#reset()
        return { type: 'end', trailers: chunked.trailers }
      }
      case 'end':
        this.#reset()
        return END
      case 'failed':
        return undefined
    }
  }

  #reset(): void {
    this.#state = 'request-line'
    this.#emptyLines = 0
    this.#method = ''
    this.#target = ''
    this.#chunked = undefined
  }

  #readRequestLine(): boolean {
    for (;;) {
      const line = this.#input.line(this.#limits.targetBytes + REQUEST_LINE_SLACK, this.#lineTooLong)
      if (line === undefined) return false
      if (line !== '') {
        this.#parseRequestLine(line)
        this.#fields = []
        this.#fieldBytes = 0
        this.#state = 'fields'
        return true
      }
      if (++this.#emptyLines > MAX_LEADING_EMPTY_LINES) throw malformed('empty lines before the request')
    }
  }

  #parseRequestLine(line: string): void {
    const method = this.#noteMethod(line)
    const first = method.length
    const last = line.lastIndexOf(' ')
    if (first === 0 || first >= last) throw malformed('bad request line')
    const target = line.slice(first + 1, last)
    const version = VERSION.exec(line.slice(last + 1))
    if (version === null) throw malformed('bad HTTP version')
    if (version[1] !== '1') {
      throw new ProxyError('http_request_error', 'HTTP version not supported', {
        status: 505,
        close: true,
        reason: 'http_version',
      })
    }
    if (!isToken(method)) throw malformed('bad method')
    if (!VISIBLE_ASCII.test(target)) throw malformed('bad byte in the request target')
    if (target.length > this.#limits.targetBytes) throw targetTooLong()
    this.#target = target
    this.#minor = version[2] === '0' ? 0 : 1
  }

  /** What stands before the first space; it is kept, as an answer to HEAD has no content whatever is wrong behind it. */
  #noteMethod(line: string): string {
    const end = line.indexOf(' ')
    const method = end === -1 ? '' : line.slice(0, end)
    if (isToken(method)) this.#method = method
    return method
  }

  /** By its beginning alone, which has come however the line was cut: whether it is the method that is too long. */
  readonly #lineTooLong = (begun: string): ProxyError => {
    if (isToken(begun.slice(0, MAX_METHOD_BYTES + 1))) return methodTooLong()
    this.#noteMethod(begun)
    return targetTooLong()
  }

  #readFields(): RequestEvent | undefined {
    for (;;) {
      const line = this.#input.line(this.#limits.headerBytes - this.#fieldBytes, fieldsTooLarge)
      if (line === undefined) return undefined
      if (line === '') return { type: 'head', head: this.#completeHead() }
      this.#fieldBytes += line.length
      if (this.#fields.length / 2 >= this.#limits.headerFields) throw fieldsTooLarge()
      parseFieldLine(line, this.#fields)
    }
  }

  #completeHead(): RequestHead {
    const framing = decideRequestFraming(this.#fields, this.#minor)
    switch (framing.kind) {
      case 'none':
        this.#state = 'end'
        break
      case 'length':
        this.#remaining = framing.length
        this.#state = framing.length === 0 ? 'end' : 'length'
        break
      case 'chunked':
        this.#chunked = new ChunkedReader(this.#limits)
        this.#state = 'chunked'
        break
    }
    return {
      method: this.#method,
      target: this.#target,
      minor: this.#minor,
      fields: this.#fields,
      framing: framing.kind === 'length' && framing.length === 0 ? NO_CONTENT : framing,
    }
  }
}

/** A method longer than all that are known is none of them (RFC 9112 §3). */
function methodTooLong(): ProxyError {
  return new ProxyError('http_request_error', 'method not implemented', {
    status: 501,
    close: true,
    reason: 'method_not_implemented',
    detail: 'The method is longer than any that is implemented.',
  })
}

function targetTooLong(): ProxyError {
  return new ProxyError('http_request_error', 'request target too long', {
    status: 414,
    close: true,
    reason: 'target_bytes',
    detail: 'The request target is longer than limits.target_bytes allows.',
  })
}

function fieldsTooLarge(): ProxyError {
  return new ProxyError('http_request_error', 'header fields too large', {
    status: 431,
    close: true,
    reason: 'header_bytes',
    detail: 'The header section is larger than limits.header_bytes or limits.header_fields allows.',
  })
}
