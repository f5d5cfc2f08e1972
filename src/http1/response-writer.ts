/**
 * The response writer: messages in, bytes out (RFC 9112 §4, §6, §7.1; RFC 9110 §6.4.1, §15).
 *
 * It alone decides how a response is framed and whether the connection outlives it. Handlers say what to send; that
 * nothing follows the head of a response to HEAD, that 204 and a 2xx to CONNECT carry no framing fields, that
 * HTTP/1.0 gets neither chunks nor 1xx, is seen to here and nowhere else.
 */
import type { Fields } from '../http/fields.js'
import { ContentWriter, fieldLines } from './content-writer.js'

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  /** End-to-end fields; framing and Connection fields among them are left out, the writer makes its own. */
  readonly fields: Fields
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

const NO_CONTENT = new ContentWriter('none')

export class ResponseWriter {
  readonly #context: ResponseContext
  #content = NO_CONTENT
  #close: boolean

  constructor(context: ResponseContext) {
    this.#context = context
    this.#close = !context.persistent
  }

  /** Whether the connection has to close after this response. Final once `head` was called. */
  get closes(): boolean {
    return this.#close
  }

  /** Whether the end of the content is marked by nothing but the end of the connection. */
  get untilClose(): boolean {
    return this.#content.framing === 'until-close'
  }

  /** From now on the response says `Connection: close`. */
  mustClose(): void {
    this.#close = true
  }

  /** An interim response; '' for HTTP/1.0 clients, which do not know any (RFC 9110 §15.2). */
  interim(status: number, reason: string, fields: Fields): string {
    if (this.#context.minor === 0) return ''
    return `${statusLine(status, reason)}${fieldLines(fields)}\r\n`
  }

  /** The head of the final response. */
  head(head: ResponseHead): string {
    this.#content = this.#decideFraming(head)
    if (this.#content.framing === 'until-close') this.#close = true
    return `${statusLine(head.status, head.reason)}${fieldLines(head.fields)}${this.#ownLines(head)}\r\n`
  }

  /** The head that ends HTTP on this connection: 2xx to CONNECT, or 101 with the `upgrade` it switches to. */
  switchingHead(status: number, reason: string, fields: Fields, upgrade?: string): string {
    const connection = upgrade === undefined ? '' : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`
    return `${statusLine(status, reason)}${fieldLines(fields)}${connection}\r\n`
  }

  /** Whether content may follow the head at all. */
  get hasContent(): boolean {
    return this.#content.framing !== 'none'
  }

  /** Whether content goes out in chunks. */
  get isChunked(): boolean {
    return this.#content.framing === 'chunked'
  }

  /**
   * So many more bytes of content are written.
   * @throws RangeError when there is more content than the head declared, or any where none may follow
   */
  countContent(bytes: number): void {
    this.#content.count(bytes)
  }

  /**
   * What ends the content: the last chunk and the trailers, which only chunked content can carry (RFC 9112 §7.1.2).
   * @throws RangeError when content that the head declared is missing
   */
  end(trailers: Fields): string {
    return this.#content.end(trailers)
  }

  #decideFraming(head: ResponseHead): ContentWriter {
    const { method, minor } = this.#context
    if (method === 'HEAD' || head.status === 204 || head.status === 304) return NO_CONTENT
    if (head.contentLength === 0) return NO_CONTENT
    if (head.contentLength !== undefined) return new ContentWriter('length', head.contentLength)
    return new ContentWriter(minor === 1 ? 'chunked' : 'until-close')
  }

  #ownLines(head: ResponseHead): string {
    let lines = ''
    if (this.#content.framing === 'chunked') lines += 'Transfer-Encoding: chunked\r\n'
    else if (head.contentLength !== undefined && head.status !== 204) {
      lines += `Content-Length: ${head.contentLength}\r\n`
    }
    if (this.#close) lines += 'Connection: close\r\n'
    else if (this.#context.minor === 0) lines += 'Connection: keep-alive\r\n'
    return lines
  }
}

function statusLine(status: number, reason: string): string {
  return `HTTP/1.1 ${status} ${reason}\r\n`
}
