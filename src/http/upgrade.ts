/**
 * Upgrade (RFC 9110 §7.8): of the protocols that a request offers, only those in the configuration are forwarded.
 *
 * The others, above all h2c, would turn the connection into one whose requests no rule checks. They are removed, and
 * the request is answered in HTTP/1.1, which its sender must accept.
 */
import { FIELD, type FieldSection } from './field-section.js'

/**
 * @param allowed protocol names that may be switched to, in lower case
 * @returns the first allowed protocol that is offered, as received; undefined when there is none, when Connection does
 *   not name Upgrade, or in HTTP/1.0
 */
export function upgradeProtocol(
  fields: FieldSection,
  minor: 0 | 1,
  allowed: readonly string[],
): string | undefined {
  if (minor === 0 || !fields.connectionOptions.includes('upgrade')) return undefined
  return fields.membersAsReceived(FIELD.upgrade).find(protocol => allowed.includes(protocol.toLowerCase()))
}
