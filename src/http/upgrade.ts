/**
 * Upgrade (RFC 9110 §7.8): of the protocols a request offers, only those that the configuration lists go on.
 *
 * The rest, h2c above all, would turn the connection into something no rule judges; they are dropped and the request
 * is answered in HTTP/1.1, which the sender must accept.
 */
import { FIELD, type FieldSection } from './field-section.js'

/**
 * @param allowed protocol names that may be switched to, in lower case
 * @returns the first allowed protocol offered, as received; undefined when there is none, when Connection does not
 *   name Upgrade, or in HTTP/1.0
 */
export function upgradeProtocol(
  fields: FieldSection,
  minor: 0 | 1,
  allowed: readonly string[],
): string | undefined {
  if (minor === 0 || !fields.connectionOptions.includes('upgrade')) return undefined
  return fields.membersAsReceived(FIELD.upgrade).find(protocol => allowed.includes(protocol.toLowerCase()))
}
