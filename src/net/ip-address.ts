/**
 * IP addresses: one strict reading of text into bytes, and one canonical text for each address
 * (RFC 4291 §2.2, RFC 5952).
 *
 * Only the plain spellings are read: four decimal parts, or IPv6 with neither brackets nor a zone. ipaddr.js takes
 * more: octal and hexadecimal parts, fewer than four, zones. An address that is judged must be the one that is dialled,
 * so text is checked before ipaddr.js reads it, and addresses are judged by their bytes.
 */
import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

export type AddressFamily = 4 | 6

/** `text` is canonical: equal addresses have equal texts. `bytes` are 4 or 16, in network order. */
export interface IpAddress {
  readonly family: AddressFamily
  readonly text: string
  readonly bytes: readonly number[]
}

/** Its text is made when it is read: most addresses are judged by their bytes alone. */
class Ipv6Address implements IpAddress {
  readonly family = 6
  readonly bytes: readonly number[]
  #text: string | undefined

  constructor(bytes: readonly number[]) {
    this.bytes = bytes
  }

  get text(): string {
    this.#text ??= ipv6Text(this.bytes)
    return this.#text
  }
}

const MAPPED_PREFIX = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] as const

/** @returns the address, or undefined for anything but a plain IPv4 or IPv6 address (zones and brackets too) */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (!text.includes(':'))
    return isIPv4(text) ? { family: 4, text, bytes: ipaddr.IPv4.parse(text).octets } : undefined
  if (text.includes('%') || !isIPv6(text)) return undefined
  return new Ipv6Address(ipaddr.IPv6.parse(withoutQuad(text)).toByteArray())
}

/**
 * @param bytes 4 or 16 integers of 0 to 255
 * @throws RangeError when there are not 4 or 16
 */
export function ipAddressFromBytes(bytes: readonly number[]): IpAddress {
  if (bytes.length === 4) return { family: 4, text: bytes.join('.'), bytes }
  if (bytes.length === 16) return new Ipv6Address(bytes)
  throw new RangeError(`an IP address has 4 or 16 bytes, found ${bytes.length}`)
}

/** The IPv4 address inside `::ffff:0:0/96`, to which the operating system sends; any other address unchanged. */
export function unmapIpv4(ip: IpAddress): IpAddress {
  return isMapped(ip.bytes) ? ipAddressFromBytes(ip.bytes.slice(12)) : ip
}

/**
 * The address of one end of a socket, as the system tells it: IPv4 in IPv6 as the IPv4 it is, and without a zone, which
 * is this machine's own matter and in no block of a configuration.
 *
 * @returns undefined for anything else, and for the end of a socket that is gone
 */
export function parseSocketAddress(text: string): IpAddress | undefined {
  const zone = text.indexOf('%')
  const ip = parseIpAddress(zone === -1 ? text : text.slice(0, zone))
  return ip && unmapIpv4(ip)
}

function isMapped(bytes: readonly number[]): boolean {
  return bytes.length === 16 && MAPPED_PREFIX.every((byte, i) => bytes[i] === byte)
}

/** `::1.2.3.4` as `::102:304`: ipaddr.js reads the former as `::ffff:1.2.3.4`, which is another address. */
function withoutQuad(text: string): string {
  if (!text.includes('.')) return text
  const start = text.lastIndexOf(':') + 1
  const [a = 0, b = 0, c = 0, d = 0] = ipaddr.IPv4.parse(text.slice(start)).octets
  return `${text.slice(0, start)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** RFC 5952 §4, and §5 for mapped addresses alone: that is how the operating system reports them, too. */
function ipv6Text(bytes: readonly number[]): string {
  if (isMapped(bytes)) return `::ffff:${bytes.slice(12).join('.')}`
  return ipaddr.fromByteArray([...bytes]).toString()
}
