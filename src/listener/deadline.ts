/** The deadlines of a connection, and the errors for a client that exceeds them. */
import { serializeSize } from '../config/quantities.js'
import { ProxyError, limitExceeded } from '../errors.js'

/** `write`: the client is to read what was written; content that it sends meanwhile does not extend the deadline. */
export type Awaited = 'none' | 'head' | 'keepalive' | 'content' | 'write' | 'linger'

/** The response to a client that took too long (RFC 9110 §15.5.9). */
export function timedOut(what: 'head' | 'content'): ProxyError {
  const key = what === 'head' ? 'limits.header_timeout' : 'limits.body_idle'
  return limitExceeded(key, 'http_request_error', `request ${what} not received in time`, {
    status: 408,
    close: true,
    reason: 'request_timeout',
  })
}

/** The response to a client whose content arrives too slowly. */
export function tooSlow(bytesPerSecond: number): ProxyError {
  return new ProxyError('http_request_error', 'request content received too slowly', {
    status: 408,
    close: true,
    reason: 'body_min_rate',
    detail: `The request content was received more slowly than limits.body_min_rate allows (${serializeSize(bytesPerSecond)} a second over limits.body_idle).`,
  })
}

/** The error for a client that has read nothing of its response for too long; it is reported and cannot be sent. */
export function responseTimedOut(): ProxyError {
  return new ProxyError('http_request_error', 'response not read in time', {
    status: 408,
    close: true,
    reason: 'body_idle',
  })
}
