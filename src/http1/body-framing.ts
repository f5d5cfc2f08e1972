/**
 * Message framing: decides from the head of a message, and for a response from its request too, how long the content is
 * (RFC 9112 §6).
 *
 * Invalid messages are rejected and never repaired. If two fields disagree, or recipients may interpret one in two
 * ways, the message ends at different positions for different hops, and the bytes in between become another message
 * (RFC 9112 §11.1, §11.2).
 */
import { malformed, ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from '../http/field-section.js'
import { trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'

/** What marks the end of the content: the head itself, its length, the last chunk, or the end of the connection. */
export type ContentFraming = 'none' | 'length' | 'chunked' | 'until-close'

export type BodyFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }

export const NO_CONTENT: BodyFraming = Object.freeze({ kind: 'none' })
const CHUNKED: BodyFraming = Object.freeze({ kind: 'chunked' })

/** The parts of a request that the framing of its response depends on. */
export interface AnsweredRequest {
  readonly method: string
  /** Whether the request offered a protocol in Upgrade. */
  readonly upgrade: boolean
}

/**
 * - `interim`: another response follows.
 * - `switched`: the bytes that follow are not HTTP.
 * - `none`: the response ends with its head, whatever its fields say.
 */
export type ResponseFraming = 'interim' | 'switched' | ContentFraming

export interface FramedResponse {
  readonly framing: ResponseFraming
  /** The length that the head declares, even if no content follows; undefined when it declares none. */
  readonly contentLength: number | undefined
}

const INTERIM: FramedResponse = Object.freeze({ framing: 'interim', contentLength: undefined })
const SWITCHED: FramedResponse = Object.freeze({ framing: 'switched', contentLength: undefined })

/** Only digits, and no more than a number can represent exactly. */
const CONTENT_LENGTH = /^\d{1,16}$/

/**
 * @param minor the minor version: Transfer-Encoding is rejected in HTTP/1.0, which does not define it
 * @throws ProxyError 400, or 501 for a transfer coding that is not implemented
 * @see RFC 9112 §6.1, §6.2, §6.3
 */
export function decideRequestFraming(fields: FieldSection, minor: 0 | 1): BodyFraming {
  if (fields.has(FIELD['transfer-encoding'])) {
    if (minor === 0) throw malformed('Transfer-Encoding in HTTP/1.0')
    if (fields.has(FIELD['content-length'])) throw malformed('Content-Length with Transfer-Encoding')
    checkTransferCodings(fields.values(FIELD['transfer-encoding']))
    return CHUNKED
  }
  if (!fields.has(FIELD['content-length'])) return NO_CONTENT
  return { kind: 'length', length: parseContentLength(fields) }
}

/**
 * @param minor the minor version of the response
 * @throws ProxyError 502
 * @see RFC 9112 §6.3
 */
export function decideResponseFraming(
  request: AnsweredRequest,
  status: number,
  minor: 0 | 1,
  fields: FieldSection,
): FramedResponse {
  if (status < 200) return decideInterim(request, status)
  // A 2xx response to CONNECT has no content; its framing fields are ignored (RFC 9110 §9.3.6).
  if (request.method === 'CONNECT' && status < 300) return SWITCHED
  const hasCoding = fields.has(FIELD['transfer-encoding'])
  if (hasCoding) checkResponseCoding(minor, fields)
  let contentLength: number | undefined
  if (fields.has(FIELD['content-length'])) {
    try {
      contentLength = parseContentLength(fields)
    } catch (cause) {
      throw new ProxyError('http_protocol_error', 'bad Content-Length in the response', { cause })
    }
  }
  if (request.method === 'HEAD' || status === 204 || status === 304) return { framing: 'none', contentLength }
  if (hasCoding) return { framing: 'chunked', contentLength }
  if (contentLength === undefined) return { framing: 'until-close', contentLength }
  return { framing: contentLength === 0 ? 'none' : 'length', contentLength }
}

/**
 * The value of Content-Length.
 * @throws ProxyError 400 when it is missing, repeated, signed, a list, not digits, or too large to be exact
 */
export function parseContentLength(fields: FieldSection): number {
  const value = fields.single(FIELD['content-length'], 'Content-Length') ?? ''
  const length = CONTENT_LENGTH.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(length)) throw malformed('bad Content-Length')
  return length
}

/** Accepts a single `chunked`; another coding before it is not implemented (501), anything else is malformed (400). */
function checkTransferCodings(values: readonly string[]): void {
  const codings = values.flatMap(value => value.split(',')).map(coding => trimOws(coding).toLowerCase())
  if (codings.length === 1 && codings[0] === 'chunked') return
  const before = codings.slice(0, -1).map(coding => trimOws(coding.split(';')[0] ?? ''))
  if (codings.at(-1) === 'chunked' && before.every(isToken) && !before.includes('chunked')) {
    throw new ProxyError('http_request_error', 'transfer coding not implemented', {
      status: 501,
      close: true,
      reason: 'transfer_coding',
    })
  }
  throw malformed('bad Transfer-Encoding')
}

function decideInterim({ method, upgrade }: AnsweredRequest, status: number): FramedResponse {
  if (status < 100) throw new ProxyError('http_protocol_error', `status code ${status} in the response`)
  if (status !== 101) return INTERIM
  if (upgrade) return SWITCHED
  if (method === 'CONNECT') {
    throw new ProxyError('http_protocol_error', 'status code 101 in response to CONNECT')
  }
  throw new ProxyError('http_upgrade_failed', 'status code 101 without an Upgrade request')
}

function checkResponseCoding(minor: 0 | 1, fields: FieldSection): void {
  if (minor === 0) {
    throw new ProxyError('http_response_transfer_coding', 'Transfer-Encoding in an HTTP/1.0 response')
  }
  const coding = FIELD['transfer-encoding']
  if (fields.isRepeated(coding) || fields.value(coding)?.toLowerCase() !== 'chunked') {
    throw new ProxyError('http_response_transfer_coding', 'transfer coding of the response not implemented')
  }
  if (fields.has(FIELD['content-length'])) {
    throw new ProxyError('http_protocol_error', 'response with Content-Length and Transfer-Encoding')
  }
}
