/**
 * A DNS server as the configuration names it: `10.0.0.2`, `10.0.0.2:5353`, `[fd00::1]:53`.
 *
 * It is an address, because a name would have to be resolved by the very server.
 */
import { parseIpAddress } from '../net/ip-address.js'

/** `host` without brackets, canonical. */
export interface DnsServer {
  readonly host: string
  readonly port: number
}

/** For the JSON Schema; parseDnsServer decides. */
export const DNS_SERVER_PATTERN = '^([0-9.]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$'
export const EXPECTED_DNS_SERVER = 'an address such as "10.0.0.2:53" or "[fd00::1]:53"'

const SERVER = /^(?:(\d[\d.]*)|\[([0-9A-Fa-f:.]+)\])(?::([1-9]\d{0,4}))?$/
const DNS_PORT = 53

/**
 * @param text an IP address, IPv6 in brackets, and a port or none for 53
 * @throws RangeError whose message says what was expected
 */
export function parseDnsServer(text: string): DnsServer {
  const [, ipv4, ipv6, digits] = SERVER.exec(text) ?? []
  const ip = parseIpAddress(ipv4 ?? ipv6 ?? '')
  const port = digits === undefined ? DNS_PORT : Number(digits)
  if (ip === undefined || port > 65535 || ip.family !== (ipv4 === undefined ? 6 : 4)) {
    throw new RangeError(`expected ${EXPECTED_DNS_SERVER}, found "${text}"`)
  }
  return { host: ip.text, port }
}

/** The text that parseDnsServer parses, with the port. */
export function serializeDnsServer({ host, port }: DnsServer): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
