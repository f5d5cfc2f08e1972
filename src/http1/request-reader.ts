/**
 * The request reader: bytes in, events out, without I/O and without timers (RFC 9112 §2 to §7).
 *
 * The caller asks for each event when it is ready for it. So the next request on a connection is not even parsed before
 * the current one is answered, and its errors cannot overtake responses that are still due. The same bytes produce the
 * same events and the same error, however they were divided into chunks.
 */
import { malformed, ProxyError } from '../errors.js'
import { FIELD, FieldSection } from '../http/field-section.js'
import { isToken } from '../http/token.js'
import { NOT_IN_TRAILERS } from '../http/trailers.js'
import { type BodyFraming, decideRequestFraming, NO_CONTENT } from './body-framing.js'
import { ByteQueue, type HeadLimits, type LimitErrors } from './byte-queue.js'
import { type ContentEvent, ContentReader } from './content-reader.js'
import { recogniseOtherProtocol } from './other-protocol.js'

/** A request head as received. `minor` is 1 for every HTTP/1.x with x above 0 (RFC 9110 §2.5). */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: FieldSection
  readonly framing: BodyFraming
}

export type RequestEvent = { readonly type: 'head'; readonly head: RequestHead } | ContentEvent

/** Length allowed in the request line, in addition to the target, for the method, two spaces and the version. */
const REQUEST_LINE_SLACK = 64
/** Empty lines that a client may send before a request line (RFC 9112 §2.2). */
const MAX_LEADING_EMPTY_LINES = 2
/** The share of that length that is left for the method; no known method is nearly as long. */
const MAX_METHOD_BYTES = REQUEST_LINE_SLACK - '  HTTP/1.1'.length
/** A method, which is a token (RFC 9110 §5.6.2), a target of visible ASCII, and a supported version. */
const REQUEST_LINE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP\/1\.\d$/
const VERSION = /^HTTP\/(\d)\.\d$/
const LIMIT_ERRORS: LimitErrors = { tooLarge: fieldsTooLarge, tooMany: fieldsTooLarge }

/** `start` applies only before the first byte of the connection. */
type State = 'start' | 'request-line' | 'fields' | 'content' | 'failed'

export class RequestReader {
  /** The bytes received on the connection: the caller pushes them here, and can see how many were not read. */
  readonly input = new ByteQueue()
  readonly #limits: HeadLimits
  readonly #content: ContentReader
  #state: State = 'start'
  #emptyLines = 0
  #method = ''
  #target = ''
  #minor: 0 | 1 = 1
  #fields = new FieldSection()

  constructor(limits: HeadLimits) {
    this.#limits = limits
    this.#content = new ContentReader(this.input, limits, NOT_IN_TRAILERS)
  }

  /** Whether a request has begun and its head is not complete. */
  get inHead(): boolean {
    if (this.#state === 'fields') return true
    return (this.#state === 'request-line' || this.#state === 'start') && this.input.length > 0
  }

  /** Method and target of the request being read, for the log entry of an incomplete one; '' until they are known. */
  get partial(): { readonly method: string; readonly target: string } {
    return { method: this.#method, target: this.#target }
  }

  /** Removes all bytes that were not read, for a connection that is no longer HTTP (after CONNECT or Upgrade). */
  takeRest(): Buffer {
    this.#state = 'failed'
    return this.input.drain()
  }

  /**
   * @returns the next event, or undefined when more bytes are needed
   * @throws ProxyError 400, 414, 431, 501 or 505; OtherProtocol when the first byte is not of HTTP; afterwards the
   *   reader returns nothing more
   */
  next(): RequestEvent | undefined {
    if (this.#state === 'failed') return undefined
    try {
      if (this.#state !== 'content') return this.#readHead()
      const event = this.#content.next()
      if (event?.type === 'end') {
        this.#state = 'request-line'
        this.#emptyLines = 0
        this.#method = ''
        this.#target = ''
      }
      return event
    } catch (error) {
      this.#state = 'failed'
      throw error
    }
  }

  #readHead(): RequestEvent | undefined {
    if (this.#state === 'start') {
      const first = this.input.peek()
      if (first === undefined) return undefined
      // A client of another protocol may wait for an answer without ever sending a line end.
      const other = recogniseOtherProtocol(first)
      if (other !== undefined) throw other
      this.#state = 'request-line'
    }
    if (this.#state === 'request-line' && !this.#readRequestLine()) return undefined
    const fields = this.#fields
    if (!this.input.readFields(fields, this.#limits, LIMIT_ERRORS)) return undefined
    const isFramed = fields.has(FIELD['content-length']) || fields.has(FIELD['transfer-encoding'])
    const framing = isFramed ? decideRequestFraming(fields, this.#minor) : NO_CONTENT
    const length = framing.kind === 'length' ? framing.length : 0
    this.#content.begin(framing.kind, length)
    this.#state = 'content'
    const head: RequestHead = {
      method: this.#method,
      target: this.#target,
      minor: this.#minor,
      fields,
      framing: framing.kind === 'length' && length === 0 ? NO_CONTENT : framing,
    }
    return { type: 'head', head }
  }

  #readRequestLine(): boolean {
    const { input } = this
    const { targetBytes } = this.#limits
    for (;;) {
      if (!input.nextLine(targetBytes + REQUEST_LINE_SLACK, this.#lineTooLong)) return false
      if (input.start < input.end) break
      if (++this.#emptyLines > MAX_LEADING_EMPTY_LINES) throw malformed('empty lines before the request')
    }
    const line = input.text.slice(input.start, input.end)
    if (!REQUEST_LINE.test(line)) throw this.#badRequestLine(line)
    const methodEnd = line.indexOf(' ')
    const targetEnd = line.length - ' HTTP/1.1'.length
    this.#method = line.slice(0, methodEnd)
    if (targetEnd - methodEnd - 1 > targetBytes) throw targetTooLong()
    this.#target = line.slice(methodEnd + 1, targetEnd)
    this.#minor = line.endsWith('0') ? 0 : 1
    this.#fields = new FieldSection()
    this.#state = 'fields'
    return true
  }

  /** The error for a line that does not match REQUEST_LINE. */
  #badRequestLine(line: string): ProxyError {
    this.#method = methodOf(line)
    const first = line.indexOf(' ')
    const last = line.lastIndexOf(' ')
    if (first <= 0 || first === last) return malformed('bad request line')
    const [, major] = VERSION.exec(line.slice(last + 1)) ?? []
    if (major === undefined) return malformed('bad HTTP version')
    if (major !== '1') return unknownVersion()
    return malformed(this.#method === '' ? 'bad method' : 'bad byte in the request target')
  }

  /**
   * The error depends only on the beginning of the line, not on how it was divided: it may be the method that is too
   * long.
   */
  readonly #lineTooLong = (begun: string): ProxyError => {
    if (isToken(begun.slice(0, MAX_METHOD_BYTES + 1))) return methodTooLong()
    this.#method = methodOf(begun)
    return targetTooLong()
  }
}

/** The method at the start of a line, or ''. It is needed even for a bad request: a response to HEAD has no content. */
function methodOf(line: string): string {
  const method = line.slice(0, Math.max(0, line.indexOf(' ')))
  return isToken(method) ? method : ''
}

function unknownVersion(): ProxyError {
  return new ProxyError('http_request_error', 'HTTP version not supported', {
    status: 505,
    close: true,
    reason: 'http_version',
  })
}

/** A method that is longer than any known one is not implemented (RFC 9112 §3). */
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
