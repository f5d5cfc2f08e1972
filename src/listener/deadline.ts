/** What a connection waits for, and what becomes of a client that takes longer than it may. */
import { serializeSize } from '../config/quantities.js'
import { ProxyError, limitExceeded } from '../errors.js'

/** `write` is that the client takes what was written. Content that it sends meanwhile does not put it off. */
export type Awaited = 'none' | 'head' | 'keepalive' | 'content' | 'write' | 'linger'

/** The answer to a client that took too long (RFC 9110 §15.5.9). */
export function timedOut(what: 'head' | 'content'): ProxyError {
  const key = what === 'head' ? 'limits.header_timeout' : 'limits.body_idle'
  return limitExceeded(key, 'http_request_error', `request ${what} not received in time`, {
    status: 408,
    close: true,
    reason: 'request_timeout',
  })
}

/** The answer to a client whose content comes, but too slowly. */
export function tooSlow(bytesPerSecond: number): ProxyError {
  return new ProxyError('http_request_error', 'request content came too slowly', {
    status: 408,
    close: true,
    reason: 'body_min_rate',
    detail: `The request content came more slowly than limits.body_min_rate allows (${serializeSize(bytesPerSecond)} a second over limits.body_idle).`,
  })
}

/** What became of a client that has taken nothing of its response for too long; it is not answered again. */
export function notTaken(): ProxyError {
  return new ProxyError('http_request_error', 'response not taken in time', {
    status: 408,
    close: true,
    reason: 'body_idle',
  })
}
