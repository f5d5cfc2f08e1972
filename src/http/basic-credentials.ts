/**
 * Basic authentication toward a proxy: the challenge, and what a client answers it with
 * (RFC 7617 §2, §2.1; RFC 9110 §11.4, §11.7.1, §11.7.2).
 *
 * Only one reading of the field is taken. What two decoders could read in two ways would be one user for Sluice and
 * another for whoever compares its logs with those of the next system.
 */
import { isUtf8 } from 'node:buffer'
import { FIELD, type FieldSection } from './field-section.js'
import { isToken } from './token.js'

export interface BasicCredentials {
  readonly user: string
  readonly password: string
}

/** The Proxy-Authenticate value of a 407: names and passwords are UTF-8 (RFC 7617 §2.1). */
export const BASIC_CHALLENGE = 'Basic realm="Sluice", charset="UTF-8"'

/** Controls, which neither part may hold (RFC 7617 §2). */
const CONTROL = /[\0-\x1f\x7f]/

/**
 * What Proxy-Authorization says (RFC 9110 §11.7.2). Never throws: who sends something unreadable is asked again.
 * @returns `missing` also for credentials of another scheme, since the answer is the same challenge
 */
export function parseProxyAuthorization(fields: FieldSection): BasicCredentials | 'missing' | 'malformed' {
  if (fields.isRepeated(FIELD['proxy-authorization'])) return 'malformed'
  return parseBasic(fields.value(FIELD['proxy-authorization']))
}

/**
 * What one value of Authorization or Proxy-Authorization says (RFC 9110 §11.6.2, §11.7.2).
 * @returns `missing` also for credentials of another scheme
 */
export function parseBasic(value: string | undefined): BasicCredentials | 'missing' | 'malformed' {
  if (value === undefined) return 'missing'
  const [scheme = ''] = value.split(' ', 1)
  if (!isToken(scheme)) return 'malformed'
  if (scheme.toLowerCase() !== 'basic') return 'missing'
  return parseUserPass(value.slice(scheme.length).replace(/^ +/, '')) ?? 'malformed'
}

/** The value of Authorization or Proxy-Authorization that says them (RFC 7617 §2). */
export function serializeBasic({ user, password }: BasicCredentials): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

/** @returns undefined unless it is the one base64 text of `user:password` in UTF-8 (RFC 7617 §2) */
function parseUserPass(text: string): BasicCredentials | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text || !isUtf8(bytes)) return undefined
  const decoded = bytes.toString()
  const colon = decoded.indexOf(':')
  if (colon === -1 || CONTROL.test(decoded)) return undefined
  return { user: decoded.slice(0, colon), password: decoded.slice(colon + 1) }
}
