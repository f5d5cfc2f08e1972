/**
 * Expect (RFC 9110 §10.1.1): `100-continue` is the only expectation there is. It is passed on and answered by the
 * next hop; another one is 417, and in HTTP/1.0 the field means nothing.
 */
import { ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from './field-section.js'

/**
 * @returns true when the client holds its content back until it sees 100 or a final status
 * @throws ProxyError 417 for any other expectation
 */
export function expectsContinue(fields: FieldSection, minor: 0 | 1): boolean {
  if (minor === 0) return false
  const expectations = fields.members(FIELD.expect)
  if (expectations.every(value => value === '100-continue')) return expectations.length > 0
  throw new ProxyError('http_request_error', 'unknown expectation', {
    status: 417,
    close: true,
    reason: 'expectation',
    detail: 'The only expectation is 100-continue.',
  })
}
