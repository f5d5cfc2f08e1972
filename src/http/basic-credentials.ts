/**
 * Basic authentication to a proxy: the challenge, and the credentials that a client sends in response
 * (RFC 7617 §2, §2.1; RFC 9110 §11.4, §11.7.1, §11.7.2).
 *
 * The field must have exactly one interpretation. If two decoders could read it in two ways, the same request would
 * have one user name in Sluice's log and another in the log of the next system.
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

/** Control characters, which neither part may contain (RFC 7617 §2). */
const CONTROL = /[\0-\x1f\x7f]/

/**
 * Parses Proxy-Authorization (RFC 9110 §11.7.2). Never throws: malformed credentials are answered with the challenge.
 * @returns `missing` also for credentials of another scheme, since the answer is the same challenge
 */
export function parseProxyAuthorization(fields: FieldSection): BasicCredentials | 'missing' | 'malformed' {
  if (fields.isRepeated(FIELD['proxy-authorization'])) return 'malformed'
  return parseBasic(fields.value(FIELD['proxy-authorization']))
}

/**
 * Parses one value of Authorization or Proxy-Authorization (RFC 9110 §11.6.2, §11.7.2).
 * @returns `missing` also for credentials of another scheme
 */
export function parseBasic(value: string | undefined): BasicCredentials | 'missing' | 'malformed' {
  if (value === undefined) return 'missing'
  const [scheme = ''] = value.split(' ', 1)
  if (!isToken(scheme)) return 'malformed'
  if (scheme.toLowerCase() !== 'basic') return 'missing'
  return parseUserPass(value.slice(scheme.length).replace(/^ +/, '')) ?? 'malformed'
}

/** The value of Authorization or Proxy-Authorization for these credentials (RFC 7617 §2). */
export function serializeBasic({ user, password }: BasicCredentials): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

/** @returns undefined unless the text is the canonical base64 of `user:password` in UTF-8 (RFC 7617 §2) */
function parseUserPass(text: string): BasicCredentials | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text || !isUtf8(bytes)) return undefined
  const decoded = bytes.toString()
  const colon = decoded.indexOf(':')
  if (colon === -1 || CONTROL.test(decoded)) return undefined
  return { user: decoded.slice(0, colon), password: decoded.slice(colon + 1) }
}
