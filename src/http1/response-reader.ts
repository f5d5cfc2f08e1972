/**
 * The response reader: bytes in, events out, without I/O and without timers (RFC 9112 §2 to §7). The twin of the
 * request reader, and as strict.
 *
 * It is pulled, and told of each request that went out: what a response holds depends on what it answers. The same
 * bytes give the same events and the same error, however they were cut. Content is given out as views of what came in.
 */
import { limitExceeded, ProxyError } from '../errors.js'
import { isPersistent } from '../http/connection.js'
import { FieldSection } from '../http/field-section.js'
import { type AnsweredRequest, decideResponseFraming } from './body-framing.js'
import { ByteQueue, type FieldLimits, type PastLimits } from './byte-queue.js'
import { type ContentEvent, ContentReader, END } from './content-reader.js'

/** How a response begins (RFC 9112 §4). */
export interface StatusLine {
  readonly status: number
  readonly minor: 0 | 1
  /** Any bytes as received, one character each; '' when there is none. Nothing acts on it. */
  readonly reason: string
}

/** A response head as received. */
export interface ReceivedHead extends StatusLine {
  readonly fields: FieldSection
  /** Of a stored response: field lines that go to clients as they are, before those of `fields`. */
  readonly lines?: string | undefined
  /** Bytes of content that it declares, also where none follow (HEAD, 304); undefined when it does not say. */
  readonly contentLength: number | undefined
}

export type ResponseEvent =
  /** One that another one follows (RFC 9110 §15.2); never 101. */
  | { readonly type: 'interim'; readonly head: ReceivedHead }
  | { readonly type: 'head'; readonly head: ReceivedHead }
  | ContentEvent
  /** 101 to an offered Upgrade, or 2xx to CONNECT: what follows is not HTTP, and `takeRest` has the beginning of it. */
  | { readonly type: 'switched'; readonly head: ReceivedHead }

/** Bytes of a header section, and the number of its fields. */
export type ResponseLimits = FieldLimits

/** Interim responses to one request; whoever sends more does not mean to come to an end. */
export const MAX_INTERIM = 100
/** What a status line is, by which its parts are where they are. */
const STATUS_LINE = /^HTTP\/1\.[01] \d{3}(?: |$)/
/** What comes late of the rest is discarded by whoever passes trailers on (RFC 9110 §6.5.1); these contradict what was read. */
const FRAMING_FIELDS: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding'])
const PAST_LIMITS: PastLimits = { tooLarge, tooMany }

type State = 'idle' | 'status-line' | 'fields' | 'content' | 'over'

export class ResponseReader {
  /** What came on the connection: its driver pushes it here, and sees how much of it nobody has read. */
  readonly input = new ByteQueue()
  readonly #limits: ResponseLimits
  readonly #content: ContentReader
  #state: State = 'idle'
  #request: AnsweredRequest = { method: '', upgrade: false }
  /** Bytes that had been read before the request went out. */
  #readBefore = 0
  #persistent = true
  #interim = 0
  /** Of the head that is being read, in front of its fields. */
  #startBytes = 0
  #statusLine: StatusLine | undefined
  #fields = new FieldSection()

  constructor(limits: ResponseLimits) {
    this.#limits = limits
    this.#content = new ContentReader(this.input, limits, FRAMING_FIELDS)
  }

  /**
   * A request goes out, and its response comes next.
   * @throws Error when the response to the request before is not complete, which is a mistake of ours
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

  /** Whether a byte has come since the request went out; an empty line is one (RFC 9112 §9.3.1). */
  get begun(): boolean {
    return this.input.received > this.#readBefore
  }

  /** Whether its sender means to go on using the connection behind this response; known once its head was given. */
  get persistent(): boolean {
    return this.#persistent
  }

  /** All bytes not read, for a connection that has stopped being HTTP. */
  takeRest(): Buffer {
    this.#state = 'over'
    return this.input.drain()
  }

  /**
   * @returns the next event; undefined when more bytes are needed, or no response is
   * @throws ProxyError 502; after that the reader gives nothing more
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
   * The connection has ended in order (a reset is no such end), and `next` has nothing more to give.
   * @returns the end of content that is marked by nothing else; undefined when no response is owed
   * @throws ProxyError 502 when the response is not complete (RFC 9112 §8)
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
        throw new ProxyError('connection_terminated', 'closed without an answer')
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
        // Some send one behind their content, and its line end counts, or there could be any number of them.
        this.#startBytes += 2
      } else {
        this.#startBytes += line.length
        this.#statusLine = parseStatusLine(line)
        this.#fields = new FieldSection()
        this.#state = 'fields'
      }
    }
    const fields = this.#fields
    const begun = this.#statusLine
    if (begun === undefined || !input.readFields(fields, this.#limits, PAST_LIMITS, this.#startBytes))
      return undefined
    const { status, minor, reason } = begun
    const { framing, contentLength } = decideResponseFraming(this.#request, status, minor, fields)
    const head: ReceivedHead = { status, minor, reason, fields, contentLength }
    // An interim response may say close; that it was sent in HTTP/1.0 says nothing yet (RFC 9112 §9.3).
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
 * `HTTP/1.1 200 OK`; the blank behind the status code is left out by some when there is no reason (RFC 9112 §4).
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

/** What the parts that requests are read with say of the client is said of upstream here. */
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
