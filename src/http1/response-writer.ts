/**
 * The response writer: messages in, bytes out (RFC 9112 §4, §6, §7.1; RFC 9110 §6.4.1, §15).
 *
 * Only this file decides how a response is framed and whether the connection persists. Handlers pass the message; the
 * writer ensures that a response to HEAD has no content, that 204 and a 2xx to CONNECT have no framing fields, and that
 * HTTP/1.0 clients get neither chunks nor 1xx. A connection has one writer for all its responses.
 */
import type { Fields } from '../http/fields.js'
import type { ContentFraming } from './body-framing.js'
import { ContentWriter, fieldLines } from './content-writer.js'

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  /** End-to-end fields; framing and Connection fields are omitted, as the writer generates its own. */
  readonly fields: Fields
  /** End-to-end field lines that are ready to be sent; they come before those of `fields`. */
  readonly lines?: string | undefined
  /** Length of the content in bytes, even if none follows (HEAD, 304); undefined when unknown. */
  readonly contentLength?: number | undefined
}

/** The request that is answered, as far as its response depends on it. */
export interface ResponseContext {
  readonly method: string
  readonly minor: 0 | 1
  /** Whether the client keeps the connection open. */
  readonly persistent: boolean
}

export class ResponseWriter extends ContentWriter {
  #context: ResponseContext
  #close: boolean

  /** @param context the request of the first response */
  constructor(context: ResponseContext) {
    super('none')
    this.#context = context
    this.#close = !context.persistent
  }

  /** Begins the response to another request. */
  begin(context: ResponseContext): void {
    this.#context = context
    this.#close = !context.persistent
    this.framing = 'none'
    this.remaining = 0
  }

  /** Whether the connection must close after this response. Final once `head` was called. */
  get closes(): boolean {
    return this.#close
  }

  /** Whether the content is delimited by the end of the connection. */
  get untilClose(): boolean {
    return this.framing === 'until-close'
  }

  /** Makes the response say `Connection: close`. */
  mustClose(): void {
    this.#close = true
  }

  /** The head of an interim response; '' for HTTP/1.0 clients, which do not support them (RFC 9110 §15.2). */
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

  /** The head that ends HTTP on this connection: 2xx to CONNECT, or 101 with `upgrade`, the protocol that follows. */
  switchingHead(status: number, reason: string, fields: Fields, upgrade?: string): string {
    const connection = upgrade === undefined ? '' : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`
    return `HTTP/1.1 ${status} ${reason}\r\n${fieldLines(fields)}${connection}\r\n`
  }
}
