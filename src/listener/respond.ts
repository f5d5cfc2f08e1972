/**
 * The responses that Sluice makes itself when it can not or will not pass a request on: one shape for all, with
 * Proxy-Status for programs, a short body for people, and the reason in the status line too.
 */
import type { ProxyError } from '../errors.js'
import { proxyStatus } from '../http/proxy-status.js'
import { refusalPhrase } from '../http/reason-phrase.js'
import type { ResponseHead } from '../http1/response-writer.js'

export interface ErrorResponse {
  readonly head: ResponseHead
  readonly body: Buffer
}

/** @param date the current HTTP-date */
export function errorResponse(error: ProxyError, date: string): ErrorResponse {
  const sentence = error.detail ?? `${error.message}.`
  const body = Buffer.from(`Sluice answered ${error.status}: ${sentence}\n`)
  return {
    head: {
      status: error.status,
      reason: refusalPhrase(error.message),
      fields: [
        'Date',
        date,
        'Proxy-Status',
        proxyStatus(error),
        'Content-Type',
        'text/plain; charset=utf-8',
        'Cache-Control',
        'no-store',
        'X-Content-Type-Options',
        'nosniff',
        ...error.fields,
      ],
      contentLength: body.length,
    },
    body,
  }
}
