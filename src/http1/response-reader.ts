/**
 * The response reader: bytes in, events out, without I/O and without timers (RFC 9112 §2 to §7). The counterpart of the
 * request reader, and as strict.
 *
 * The caller asks for each event, and reports each request that it sends, because the framing of a response depends on
 * its request. The same bytes produce the same events and the same error, however they were divided into chunks.
 * Content is returned as views of the received chunks.
 */
import { limitExceeded, ProxyError } from '../errors.js'
import { isPersistent } from '../http/connection.js'
import { FieldSection } from '../http/field-section.js'
import { type AnsweredRequest, decideResponseFraming } from './body-framing.js'
import { ByteQueue, type FieldLimits, type LimitErrors } from './byte-queue.js'
import { type ContentEvent, ContentReader, END } from './content-reader.js'

/** The first line of a response (RFC 9112 §4). */
export interface StatusLine {
  readonly status: number
  readonly minor: 0 | 1
  /** The bytes received, one character for each; '' when there is none. No decision depends on it. */
  readonly reason: string
}

/** A response head as received. */
export interface ReceivedHead extends StatusLine {
  readonly fields: FieldSection
  /** Of a stored response: field lines that go to clients as they are, before those of `fields`. */
  readonly lines?: string | undefined
  /**
   * The length in bytes that the head declares, even if no content follows (HEAD, 304); undefined when it declares
   * none.
   */
  readonly contentLength: number | undefined
}

export type ResponseEvent =
  /** A response that another one follows (RFC 9110 §15.2); never 101. */
  | { readonly type: 'interim'; readonly head: ReceivedHead }
  | { readonly type: 'head'; readonly head: ReceivedHead }
  | ContentEvent
  /** 101 to an offered Upgrade, or 2xx to CONNECT: what follows is not HTTP, and `takeRest` returns its beginning. */
  | { readonly type: 'switched'; readonly head: ReceivedHead }

/** Bytes of a header section, and the number of its fields. */
export type ResponseLimits = FieldLimits

/** The most interim responses to one request; an upstream that sends more would never send the final one. */
export const MAX_INTERIM = 100
/** A valid status line, whose parts are at fixed positions. */
const STATUS_LINE = /^HTTP\/1\.[01] \d{3}(?: |$)/
/**
 * Trailers that contradict the framing. Other unsuitable trailers are dropped when trailers are forwarded (RFC 9110
 * §6.5.1).
 */
const FRAMING_FIELDS: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding'])
const LIMIT_ERRORS: LimitErrors = { tooLarge, tooMany }

type State = 'idle' | 'status-line' | 'fields' | 'content' | 'over'

export class ResponseReader {
  /** The bytes received on the connection: the caller pushes them here, and can see how many were not read. */
  readonly input = new ByteQueue()
  readonly #limits: ResponseLimits
  readonly #content: ContentReader
  #state: State = 'idle'
  #request: AnsweredRequest = { method: '', upgrade: false }
  /** Bytes that had been read before the request was sent. */
  #readBefore = 0
  #persistent = true
  #interim = 0
  /** Length of the part of the current head before its fields, in bytes. */
  #startBytes = 0
  #statusLine: StatusLine | undefined
  #fields = new FieldSection()

  constructor(limits: ResponseLimits) {
    this.#limits = limits
    this.#content = new ContentReader(this.input, limits, FRAMING_FIELDS)
  }

  /**
   * Must be called when a request is sent, whose response is then read.
   * @throws Error when the response to the previous request is not complete, which is a bug of the caller
   */
  expect(request: AnsweredRequest): void {
    if (this.#state !== 'idle') throw new Error('request sent before the last response ended')
    this.#request = request
    this.#state = 'status-line'
    this.#readBefore = this.input.received - this.input.length
    this.#persistent = true
    this.#interim = 0
    this.#startBytes = 0
  }

  /** Whether a byte was received since the request was sent; an empty line counts (RFC 9112 §9.3.1). */
  get hasBegun(): boolean {
    return this.input.received > this.#readBefore
  }

  /** Whether the server keeps the connection open after this response; valid once the head was returned. */
  get persistent(): boolean {
    return this.#persistent
  }

  /** Removes all bytes that were not read, for a connection that is no longer HTTP. */
  takeRest(): Buffer {
    this.#state = 'over'
    return this.input.drain()
  }

  /**
   * @returns the next event; undefined when more bytes are needed, or no response is expected
   * @throws ProxyError 502; afterwards the reader returns nothing more
   */
  next(): ResponseEvent | undefined {
    if (this.#state === 'idle' || this.#state === 'over') return undefined
    try {
      if (this.#state !== 'content') return this.#readHead()
      const event = this.#content.next()
      if (event?.type === 'end') this.#state = 'idle'
      return event
    } catch (error) {
      this.#state = 'over'
      throw toUpstreamError(error)
    }
  }

  /**
   * Must be called when the connection has ended normally (not by a reset) and `next` returns nothing more.
   * @returns the end of content that is delimited by the end of the connection; undefined when no response is expected
   * @throws ProxyError 502 when the response is incomplete (RFC 9112 §8)
   */
  finish(): ResponseEvent | undefined {
    const state = this.#state
    this.#state = 'over'
    switch (state) {
      case 'idle':
      case 'over':
        return undefined
      case 'status-line':
      case 'fields':
        throw new ProxyError('connection_terminated', 'closed without a response')
      case 'content':
        if (this.#content.mayEnd) return END
        throw new ProxyError('http_response_incomplete', 'response ended early')
    }
  }

  #readHead(): ResponseEvent | undefined {
    const { input } = this
    while (this.#state === 'status-line') {
      if (!input.nextLine(this.#limits.headerBytes - this.#startBytes, tooLarge)) return undefined
      const line = input.text.slice(input.start, input.end)
      if (line === '') {
        // Some servers send an empty line after their content. It counts, or there could be any number of them.
        this.#startBytes += 2
      } else {
        this.#startBytes += line.length
        this.#statusLine = parseStatusLine(line)
        this.#fields = new FieldSection()
        this.#state = 'fields'
      }
    }
    const fields = this.#fields
    const statusLine = this.#statusLine
    if (statusLine === undefined || !input.readFields(fields, this.#limits, LIMIT_ERRORS, this.#startBytes))
      return undefined
    const { status, minor, reason } = statusLine
    const { framing, contentLength } = decideResponseFraming(this.#request, status, minor, fields)
    const head: ReceivedHead = { status, minor, reason, fields, contentLength }
    // An interim response may say close; its version, if 1.0, does not yet end persistence (RFC 9112 §9.3).
    if (!isPersistent(fields, status < 200 ? 1 : minor, 'server')) this.#persistent = false
    if (framing === 'switched') {
      this.#state = 'over'
      return { type: 'switched', head }
    }
    if (framing === 'interim') {
      if (++this.#interim > MAX_INTERIM) {
        throw tooManyInterim()
      }
      this.#startBytes = 0
      this.#state = 'status-line'
      return { type: 'interim', head }
    }
    if (framing === 'until-close') this.#persistent = false
    this.#content.begin(framing, contentLength ?? 0)
    this.#state = 'content'
    return { type: 'head', head }
  }
}

/**
 * `HTTP/1.1 200 OK`; without a reason some servers omit the space after the status code (RFC 9112 §4).
 * @throws ProxyError 502
 */
export function parseStatusLine(line: string): StatusLine {
  if (!STATUS_LINE.test(line)) throw badStatusLine()
  return {
    status: Number(line.slice(9, 12)),
    minor: line.startsWith('HTTP/1.1') ? 1 : 0,
    reason: line.slice(13),
  }
}

export function badStatusLine(): ProxyError {
  return new ProxyError('http_protocol_error', 'bad status line in a response')
}

export function tooManyInterim(): ProxyError {
  return new ProxyError('http_protocol_error', 'too many interim responses')
}

/** Converts an error of the shared parsers, which blame the client, to one that blames the upstream. */
export function toUpstreamError(error: unknown): unknown {
  if (!(error instanceof ProxyError) || error.side === 'upstream') return error
  return new ProxyError('http_protocol_error', `${error.message} in a response`, { cause: error })
}

export function tooLarge(): ProxyError {
  return limitExceeded(
    'limits.header_bytes',
    'http_response_header_section_size',
    'response header section too large',
  )
}

export function tooMany(): ProxyError {
  return new ProxyError('http_response_header_section_size', 'too many fields in a response')
}
