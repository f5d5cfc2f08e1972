/**
 * Upgrade (RFC 9110 §7.8): of the protocols a request offers, only those that the configuration lists go on.
 *
 * The rest, h2c above all, would turn the connection into something no rule judges; they are dropped and the request
 * is answered in HTTP/1.1, which the sender must accept.
 */
import { connectionOptions } from './connection.js'
import { type Fields, listMembers } from './fields.js'

/**
 * @param allowed protocol names that may be switched to, in lower case
 * @returns the first allowed protocol offered, as received; undefined when there is none, when Connection does not
 *   name Upgrade, or in HTTP/1.0
 */
export function upgradeProtocol(
  fields: Fields,
  minor: 0 | 1,
  allowed: readonly string[],
): string | undefined {
  if (minor === 0 || allowed.length === 0) return undefined
  const offered = listMembers(fields, 'upgrade')
  if (offered.length === 0 || !connectionOptions(fields).includes('upgrade')) return undefined
  return offered.find(protocol => allowed.includes(protocol.toLowerCase()))
}
