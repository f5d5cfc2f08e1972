/**
 * The response writer: messages in, bytes out (RFC 9112 §4, §6, §7.1; RFC 9110 §6.4.1, §15).
 *
 * It alone decides how a response is framed and whether the connection outlives it. Handlers say what to send; that
 * nothing follows the head of a response to HEAD, that 204 and a 2xx to CONNECT carry no framing fields, that
 * HTTP/1.0 gets neither chunks nor 1xx, is seen to here and nowhere else. One writer serves a connection: its responses
 * follow each other.
 */
import type { Fields } from '../http/fields.js'
import type { ContentFraming } from './body-framing.js'
import { ContentWriter, fieldLines } from './content-writer.js'

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  /** End-to-end fields; framing and Connection fields among them are left out, the writer makes its own. */
  readonly fields: Fields
  /** End-to-end field lines that are ready to be sent; they come before those of `fields`. */
  readonly lines?: string | undefined
  /** Bytes of content that follow, or would for a HEAD or 304 response; undefined when not known. */
  readonly contentLength?: number | undefined
}

/** What the response answers. */
export interface ResponseContext {
  readonly method: string
  readonly minor: 0 | 1
  /** Whether the client means to go on using the connection. */
  readonly persistent: boolean
}

export class ResponseWriter extends ContentWriter {
  #context: ResponseContext
  #close: boolean

  /** @param context of the first response */
  constructor(context: ResponseContext) {
    super('none')
    this.#context = context
    this.#close = !context.persistent
  }

  /** What follows is the response to another request. */
  begin(context: ResponseContext): void {
    this.#context = context
    this.#close = !context.persistent
    this.framing = 'none'
    this.remaining = 0
  }

  /** Whether the connection has to close after this response. Final once `head` was called. */
  get closes(): boolean {
    return this.#close
  }

  /** Whether the end of the content is marked by nothing but the end of the connection. */
  get untilClose(): boolean {
    return this.framing === 'until-close'
  }

  /** From now on the response says `Connection: close`. */
  mustClose(): void {
    this.#close = true
  }

  /** An interim response; '' for HTTP/1.0 clients, which do not know any (RFC 9110 §15.2). */
  interim(status: number, reason: string, fields: Fields): string {
    if (this.#context.minor === 0) return ''
    return `HTTP/1.1 ${status} ${reason}\r\n${fieldLines(fields)}\r\n`
  }

  /** The head of the final response. */
  head({ status, reason, lines = '', fields, contentLength }: ResponseHead): string {
    const { method, minor } = this.#context
    let framing: ContentFraming = minor === 1 ? 'chunked' : 'until-close'
    if (contentLength !== undefined) framing = 'length'
    if (method === 'HEAD' || status === 204 || status === 304 || contentLength === 0) framing = 'none'
    this.framing = framing
    this.remaining = framing === 'length' ? (contentLength ?? 0) : 0
    if (framing === 'until-close') this.#close = true
    let own = ''
    if (framing === 'chunked') own = 'Transfer-Encoding: chunked\r\n'
    else if (contentLength !== undefined && status !== 204) own = `Content-Length: ${contentLength}\r\n`
    if (this.#close) own += 'Connection: close\r\n'
    else if (minor === 0) own += 'Connection: keep-alive\r\n'
    return `HTTP/1.1 ${status} ${reason}\r\n${lines}${fieldLines(fields)}${own}\r\n`
  }

  /** The head that ends HTTP on this connection: 2xx to CONNECT, or 101 with the `upgrade` it switches to. */
  switchingHead(status: number, reason: string, fields: Fields, upgrade?: string): string {
    const connection = upgrade === undefined ? '' : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`
    return `HTTP/1.1 ${status} ${reason}\r\n${fieldLines(fields)}${connection}\r\n`
  }
}
