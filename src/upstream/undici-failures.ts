/** What an error of undici is as one of ours, by its code and by what had come on the connection (RFC 9209 §2.3). */
import { errorCode, ProxyError } from '../errors.js'
import { tooLarge } from '../http1/response-reader.js'
import { upstreamFailure } from './failures.js'

/** What is known of the request that failed. */
export interface FailedRequest {
  /** `address:port`. */
  readonly where: string
  /** Whether a byte had come in answer to it. */
  readonly hasBegun: boolean
  /** Whether the head of its response had been given out. */
  readonly hasResponded: boolean
  /** Whether the other side has ended the connection in order. */
  readonly hasEnded: boolean
}

/**
 * Whether undici ended the connection over a response that it does not read: 100, which RFC 9110 §15.2 lets an origin
 * send to any request, or 101. It has one code for both, and for a connection that the other side has ended.
 */
export function isUnreadable(error: unknown, { hasBegun, hasResponded, hasEnded }: FailedRequest): boolean {
  return errorCode(error) === 'UND_ERR_SOCKET' && hasBegun && !hasResponded && !hasEnded
}

/** @param error what undici, or the dialler through it, threw */
export function undiciFailure(error: unknown, request: FailedRequest): ProxyError {
  const { where, hasResponded, hasEnded } = request
  const code = errorCode(error)
  // What its parser refuses has a name of its own, and hardly ever a code.
  if (error instanceof Error && error.name === 'HTTPParserError') return notHttp(code ?? '', error)
  switch (code) {
    case 'UND_ERR_SOCKET':
      if (hasResponded && hasEnded) return incomplete(where)
      return new ProxyError(
        'connection_terminated',
        hasEnded ? `closed without an answer: ${where}` : `connection closed: ${where}`,
        { cause: error },
      )
    // Also what is malformed in a head that declares a length.
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return hasResponded ? incomplete(where) : notHttp(code, error)
    case 'UND_ERR_HEADERS_OVERFLOW':
      return tooLarge()
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return new ProxyError('connection_terminated', `connection closed: ${where}`, { cause: error })
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
    case 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH':
      return new ProxyError('proxy_internal_error', 'request cannot be sent', { cause: error })
    default:
      return upstreamFailure(error, where)
  }
}

function notHttp(code: string, cause: unknown): ProxyError {
  if (code === 'HPE_INVALID_TRANSFER_ENCODING') {
    return new ProxyError(
      'http_response_transfer_coding',
      'transfer coding of the response not implemented',
      {
        cause,
      },
    )
  }
  return new ProxyError('http_protocol_error', 'response is not HTTP/1.1', { cause })
}

function incomplete(where: string): ProxyError {
  return new ProxyError('http_response_incomplete', `response ended early: ${where}`)
}

/** Whether undici was closed from this side, which no second attempt is a remedy for. */
export function isOurs(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED'
}
