/**
 * Proxy-Status (RFC 9209): tells programs the type of an error, on every response that Sluice generates itself and on
 * no other; the body tells people.
 */
import { serializeList, Token } from 'structured-headers'
import type { ProxyError } from '../errors.js'

const NAME = 'sluice'
const NOT_IN_SF_STRING = /[^\x20-\x7e]/g

/** The field value: `sluice;error=type;details="..."`; `details` repeats the message in the reason phrase. */
export function proxyStatus(error: ProxyError): string {
  const details = error.message.replace(NOT_IN_SF_STRING, '?')
  const parameters = new Map<string, Token | string>([
    ['error', new Token(error.type)],
    ['details', details],
  ])
  return serializeList([[new Token(NAME), parameters]])
}
