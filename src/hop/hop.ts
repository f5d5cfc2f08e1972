/**
 * What this hop answers by itself: `OPTIONS *`, which asks about the server as a whole, and TRACE, which is off
 * (RFC 9110 §9.3.7, §9.3.8).
 */
import { ProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import { METHOD_NAMES } from '../http/method.js'
import { registeredPhrase } from '../http/reason-phrase.js'
import type { Outcome } from '../outcome.js'

/** Every method that is in use here, for Allow (RFC 9110 §10.2.1). */
const SERVER_METHODS = METHOD_NAMES.filter(name => name !== 'TRACE').join(', ')
const RESOURCE_METHODS = METHOD_NAMES.filter(name => name !== 'TRACE' && name !== 'CONNECT').join(', ')

/** Answers `OPTIONS *`. */
export function answerServerOptions(exchange: Exchange, date: string): Outcome {
  const content = exchange.respond({
    status: 200,
    reason: registeredPhrase(200),
    fields: ['Date', date, 'Allow', SERVER_METHODS],
    contentLength: 0,
  })
  content.end()
  return { handler: 'hop', status: 200, closeReason: 'complete', bytesUp: 0, bytesDown: 0 }
}

/** The refusal of TRACE, which is never forwarded either: it makes credentials readable to scripts. */
export function traceDisabled(): ProxyError {
  return new ProxyError('http_request_error', 'TRACE is off', {
    status: 405,
    reason: 'trace_off',
    fields: ['Allow', RESOURCE_METHODS],
    detail: 'TRACE is off: it would echo credentials to whoever can send a request.',
  })
}
