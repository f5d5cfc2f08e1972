/**
 * The Host field: exactly one in HTTP/1.1, well-formed in every version (RFC 9112 §3.2, RFC 9110 §7.2).
 *
 * In absolute- and authority-form the target decides where a request goes and Host is only checked for its
 * shape; it may differ (some clients leave the port out) and is rewritten before anything is sent.
 */
import { malformed } from '../errors.js'
import { type Authority, parseAuthority } from './authority.js'
import { FIELD, type FieldSection } from './field-section.js'

const HTTP_PORT = 80

/**
 * @param minor the minor version of the request: 1.1 must carry Host, 1.0 need not
 * @param target the authority of the request target, which most clients repeat in Host
 * @returns the authority Host names, or undefined when there is none
 * @throws ProxyError 400 when it is missing in HTTP/1.1, given twice, empty, or not `host[:port]`
 */
export function parseHostField(
  fields: FieldSection,
  minor: 0 | 1,
  target?: Authority,
): Authority | undefined {
  if (fields.isRepeated(FIELD.host)) throw malformed('more than one Host')
  const value = fields.value(FIELD.host)
  if (value === undefined) {
    if (minor === 1) throw malformed('no Host')
    return undefined
  }
  return value === target?.text ? target : parseAuthority(value, HTTP_PORT)
}
