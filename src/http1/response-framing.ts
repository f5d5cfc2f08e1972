/**
 * How long the content of a response is, decided from its head and from what it answers (RFC 9112 §6.3): the twin of
 * decideRequestFraming. What two recipients could read in two ways is refused: the end of such a response is another
 * one for each of them, and what lies between answers somebody else's request (RFC 9112 §11.1).
 */
import { ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from '../http/field-section.js'
import { parseContentLength } from './body-framing.js'

/** What a response answers, as far as its framing depends on it. */
export interface AnsweredRequest {
  readonly method: string
  /** Whether the request offered a protocol in Upgrade. */
  readonly upgrade: boolean
}

/**
 * - `interim`: another response follows.
 * - `switched`: what follows is not HTTP.
 * - `none`: it ends with its head, whatever its fields say.
 * - `until-close`: it ends with the connection.
 */
export type ResponseFraming = 'interim' | 'switched' | 'none' | 'length' | 'chunked' | 'until-close'

export interface FramedResponse {
  readonly framing: ResponseFraming
  /** The length that its head declares, also where no content follows; undefined when it declares none. */
  readonly contentLength: number | undefined
}

const INTERIM: FramedResponse = Object.freeze({ framing: 'interim', contentLength: undefined })
const SWITCHED: FramedResponse = Object.freeze({ framing: 'switched', contentLength: undefined })

/**
 * @param minor the minor version of the response
 * @throws ProxyError 502
 */
export function decideResponseFraming(
  request: AnsweredRequest,
  status: number,
  minor: 0 | 1,
  fields: FieldSection,
): FramedResponse {
  if (status < 200) return decideInterim(request, status)
  // The framing fields of a 2xx to CONNECT mean nothing (RFC 9110 §9.3.6).
  if (request.method === 'CONNECT' && status < 300) return SWITCHED
  const hasCoding = fields.has(FIELD['transfer-encoding'])
  if (hasCoding) checkCoding(minor, fields)
  const contentLength = declaredLength(fields)
  if (request.method === 'HEAD' || status === 204 || status === 304) return { framing: 'none', contentLength }
  if (hasCoding) return { framing: 'chunked', contentLength }
  if (contentLength === undefined) return { framing: 'until-close', contentLength }
  return { framing: contentLength === 0 ? 'none' : 'length', contentLength }
}

function decideInterim({ method, upgrade }: AnsweredRequest, status: number): FramedResponse {
  if (status < 100) throw new ProxyError('http_protocol_error', `status code ${status} in the response`)
  if (status !== 101) return INTERIM
  if (upgrade) return SWITCHED
  if (method === 'CONNECT') {
    throw new ProxyError('http_protocol_error', 'status code 101 in answer to CONNECT')
  }
  throw new ProxyError('http_upgrade_failed', 'protocol switched without being asked')
}

function checkCoding(minor: 0 | 1, fields: FieldSection): void {
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

function declaredLength(fields: FieldSection): number | undefined {
  const value = fields.value(FIELD['content-length'])
  if (value === undefined) return undefined
  try {
    return parseContentLength(fields.isRepeated(FIELD['content-length']) ? [value, value] : [value])
  } catch (cause) {
    throw new ProxyError('http_protocol_error', 'bad Content-Length in the response', { cause })
  }
}
