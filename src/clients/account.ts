/**
 * What limits for each client are counted under. Entries may let in many: so it is the entry, and in it the user for
 * those known by a password, the holder for those known by a certificate, and otherwise the network that they connect from.
 */
import { parseProxyAuthorization } from '../http/basic-credentials.js'
import type { Requester, Client } from './identify.js'

/**
 * @param client what the requester was found to be
 * @param source what failed attempts of its address are counted under
 */
export function clientAccount(
  client: Client,
  { fields, certificate }: Pick<Requester, 'fields' | 'certificate'>,
  source: string,
): string {
  if (client.basic !== undefined) {
    const credentials = parseProxyAuthorization(fields)
    if (typeof credentials === 'object') return `${client.name} user ${credentials.user}`
  }
  if (client.certificate !== undefined && certificate?.kind === 'valid') {
    const { subject, names } = certificate
    return `${client.name} certificate ${JSON.stringify([subject, names])}`
  }
  return `${client.name} address ${source}`
}
