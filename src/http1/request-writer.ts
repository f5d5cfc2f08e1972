/**
 * The request writer: a request in, bytes out (RFC 9112 §3, §5, §6, §7.1). The counterpart of the response writer.
 *
 * Only this file decides how a request is framed, and the head is returned in one piece. Content of unknown length is
 * chunked, an empty request of a method with defined content has a Content-Length of 0, and CONNECT has neither content
 * nor framing.
 */
import { fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { ContentWriter, fieldLines } from './content-writer.js'

export interface OutgoingRequest {
  readonly method: string
  /** The request target, in the form required by the method and the next hop (RFC 9112 §3.2). */
  readonly path: string
  /** The Host field. */
  readonly host: string
  /** End-to-end fields without Host and without framing. */
  readonly fields: Fields
  /** Absent when the request has no content; its `length` is undefined for chunked content. */
  readonly content: { readonly length: number | undefined } | undefined
  /** Whether a Content-Length of 0 is written even if the method does not require it. */
  readonly sendsZeroLength: boolean
  readonly expectContinue: boolean
  /** The protocol to offer in Upgrade. */
  readonly upgrade: string | undefined
}

/** Announces trailer fields, so it is meaningful only with chunked content (RFC 9110 §6.6.2). */
const TRAILER = fieldSet('trailer')
const NO_CONTENT = new ContentWriter('none')
const VISIBLE_ASCII = /^[\x21-\x7e]+$/

/**
 * The head of a request, in latin1: Host first (RFC 9110 §7.2), then the given fields in order, then those of this hop.
 * @throws TypeError when method, target or Host contain white space or other invalid bytes, which is a bug of the
 *   caller
 */
export function serializeRequestHead(request: OutgoingRequest): string {
  const { method, path, host, content } = request
  if (!VISIBLE_ASCII.test(method) || !VISIBLE_ASCII.test(path) || !VISIBLE_ASCII.test(host)) {
    throw new TypeError('request line or Host that cannot be written')
  }
  const start = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n`
  if (method === 'CONNECT') return `${start}${fieldLines(request.fields)}\r\n`
  let framing = ''
  const isChunked = content !== undefined && content.length === undefined
  if (isChunked) framing = 'Transfer-Encoding: chunked\r\n'
  else if (content !== undefined) framing = `Content-Length: ${content.length}\r\n`
  // A request without framing fields has no content (RFC 9112 §6.3), but an explicit length of 0 helps servers that
  // expect content (RFC 9110 §8.6).
  else if (request.sendsZeroLength || methodProperties(method).requestContent === 'defined') {
    framing = 'Content-Length: 0\r\n'
  }
  const fields = fieldLines(request.fields, isChunked ? 0 : TRAILER)
  const expect = request.expectContinue ? 'Expect: 100-continue\r\n' : ''
  const { upgrade } = request
  const connection =
    upgrade === undefined ? 'Connection: keep-alive\r\n' : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`
  return `${start}${fields}${framing}${expect}${connection}\r\n`
}

/** The writer for the content of a request, which follows its head. */
export function contentWriter({ content }: Pick<OutgoingRequest, 'content'>): ContentWriter {
  if (content === undefined) return NO_CONTENT
  return content.length === undefined
    ? new ContentWriter('chunked')
    : new ContentWriter('length', content.length)
}
