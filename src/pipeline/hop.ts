/**
 * Requests that this hop answers itself: OPTIONS and TRACE when it is their final recipient, `OPTIONS *`, which is
 * about the server as a whole, and TRACE when it is disabled (RFC 9110 §9.3.7, §9.3.8, §7.6.2).
 */
import { ProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import { serializeAllow } from '../http/allow.js'
import type { Method } from '../http/method.js'
import { registeredPhrase } from '../http/reason-phrase.js'
import { serializeTraceMessage, TRACE_CONTENT_TYPE } from '../http/trace-message.js'
import { Outcome } from '../outcome.js'

/** @param allowed the methods of the server or of the requested resource */
export function answerOptions(exchange: Exchange, date: string, allowed: Iterable<Method>): Outcome {
  return answer(exchange, ['Date', date, 'Allow', serializeAllow(allowed)], Buffer.alloc(0))
}

/** @param excluded names of fields to omit in addition to those that always are, in lower case */
export function echoTrace(exchange: Exchange, date: string, excluded: ReadonlySet<string>): Outcome {
  const message = serializeTraceMessage(exchange.head, excluded)
  return answer(exchange, ['Date', date, 'Content-Type', TRACE_CONTENT_TYPE], message)
}

/**
 * The error for TRACE when it is disabled. It is not forwarded either, because it makes credentials readable to
 * scripts.
 * @param allowed the methods that the resource supports
 */
export function traceDisabled(allowed: Iterable<Method>): ProxyError {
  return new ProxyError('http_request_error', 'TRACE is off', {
    status: 405,
    reason: 'trace_off',
    fields: ['Allow', serializeAllow(allowed)],
    detail:
      'TRACE is off: its response would show the sender what others have added to the request. trace.enabled allows it.',
  })
}

function answer(exchange: Exchange, fields: readonly string[], body: Buffer): Outcome {
  const content = exchange.respond({
    status: 200,
    reason: registeredPhrase(200),
    fields,
    contentLength: body.length,
  })
  if (body.length > 0) content.write(body)
  content.end()
  return Outcome.complete('hop', 200, { bytesUp: 0, bytesDown: body.length })
}
