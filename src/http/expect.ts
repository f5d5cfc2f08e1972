/**
 * Expect (RFC 9110 §10.1.1): `100-continue` is the only expectation that is defined. It is forwarded, and the next hop
 * answers it; any other is answered with 417. In HTTP/1.0 the field is ignored.
 */
import { ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from './field-section.js'

/**
 * @returns true when the client waits for 100 or a final status before it sends its content
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
    detail: 'The only supported expectation is 100-continue.',
  })
}
