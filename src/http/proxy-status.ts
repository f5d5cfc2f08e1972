/**
 * Proxy-Status (RFC 9209): says on every response that Sluice makes itself, and on no other, which kind of thing
 * went wrong, for programs; the body says it for people.
 */
import { serializeList, Token } from 'structured-headers'
import type { ProxyError } from '../errors.js'

const NAME = 'sluice'
const NOT_IN_SF_STRING = /[^\x20-\x7e]/g

/** The field value: `sluice;error=type;details="..."`; details is the clause the reason phrase has too. */
export function proxyStatus(error: ProxyError): string {
  const details = error.message.replace(NOT_IN_SF_STRING, '?')
  const parameters = new Map<string, Token | string>([
    ['error', new Token(error.type)],
    ['details', details],
  ])
  return serializeList([[new Token(NAME), parameters]])
}
