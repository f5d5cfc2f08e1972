/** Translates errors of undici, by their code and by what had been received on the connection (RFC 9209 §2.3). */
import { errorCode, ProxyError } from '../errors.js'
import { tooLarge } from '../http1/response-reader.js'
import { upstreamFailure } from './failures.js'

/** The state of the request that failed. */
export interface FailedRequest {
  /** `address:port`. */
  readonly where: string
  /** Whether a byte of its response had been received. */
  readonly hasBegun: boolean
  /** Whether the head of its final response had been reported. */
  readonly hasResponded: boolean
  /** Whether the upstream has closed its side of the connection without a reset. */
  readonly hasEnded: boolean
}

/**
 * Whether undici closed the connection because of a response that it cannot parse: 100, which an origin may send to any
 * request (RFC 9110 §15.2), or 101. undici has one error code for both, and for a connection that the upstream closed.
 */
export function isUnreadable(error: unknown, { hasBegun, hasResponded, hasEnded }: FailedRequest): boolean {
  return errorCode(error) === 'UND_ERR_SOCKET' && hasBegun && !hasResponded && !hasEnded
}

/** @param error the error of undici, or that of the dialler, which undici passes on */
export function undiciFailure(error: unknown, request: FailedRequest): ProxyError {
  const { where, hasResponded, hasEnded } = request
  const code = errorCode(error)
  // Errors of its parser have a name of their own, but rarely a code.
  if (error instanceof Error && error.name === 'HTTPParserError') return notHttp(code ?? '', error)
  switch (code) {
    case 'UND_ERR_SOCKET':
      if (hasResponded && hasEnded) return incomplete(where)
      return new ProxyError(
        'connection_terminated',
        hasEnded ? `closed without a response: ${where}` : `connection closed: ${where}`,
        { cause: error },
      )
    // undici also reports this for a malformed head that declares a length.
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

/** Whether this side has closed undici's pool, so that another attempt would be pointless. */
export function isClosedByUs(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED'
}
