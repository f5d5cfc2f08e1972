/**
 * IP addresses: a strict parser from text to bytes, and one canonical text for each address (RFC 4291 §2.2, RFC 5952).
 *
 * Only the usual notation is accepted: four decimal parts, or IPv6 without brackets and zone. ipaddr.js accepts more:
 * octal and hexadecimal parts, fewer than four parts, zones. The address that is judged must be the one that is
 * dialled, so the text is checked before ipaddr.js parses it, and addresses are judged by their bytes.
 */
import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

export type AddressFamily = 4 | 6

/** `text` is canonical: equal addresses have equal texts. `bytes` has 4 or 16 elements, in network order. */
export interface IpAddress {
  readonly family: AddressFamily
  readonly text: string
  readonly bytes: readonly number[]
}

/** Its text is formatted on first use: most addresses are judged only by their bytes. */
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

/** @returns undefined for anything but a plain IPv4 or IPv6 address, also for one with a zone or brackets */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (!text.includes(':'))
    return isIPv4(text) ? { family: 4, text, bytes: ipaddr.IPv4.parse(text).octets } : undefined
  if (text.includes('%') || !isIPv6(text)) return undefined
  return new Ipv6Address(ipaddr.IPv6.parse(withoutQuad(text)).toByteArray())
}

/**
 * @param bytes 4 or 16 integers of 0 to 255
 * @throws RangeError when there are neither 4 nor 16
 */
export function ipAddressFromBytes(bytes: readonly number[]): IpAddress {
  if (bytes.length === 4) return { family: 4, text: bytes.join('.'), bytes }
  if (bytes.length === 16) return new Ipv6Address(bytes)
  throw new RangeError(`an IP address has 4 or 16 bytes, found ${bytes.length}`)
}

/** The IPv4 address in `::ffff:0:0/96`, to which the operating system would connect; other addresses unchanged. */
export function unmapIpv4(ip: IpAddress): IpAddress {
  return isMapped(ip.bytes) ? ipAddressFromBytes(ip.bytes.slice(12)) : ip
}

/**
 * The address of one end of a socket as the system reports it: IPv4-mapped IPv6 is converted to IPv4, and a zone is
 * removed, as it is valid only on this machine and does not occur in blocks of the configuration.
 *
 * @returns undefined for anything else, and when the socket was already closed
 */
export function parseSocketAddress(text: string): IpAddress | undefined {
  const zone = text.indexOf('%')
  const ip = parseIpAddress(zone === -1 ? text : text.slice(0, zone))
  return ip && unmapIpv4(ip)
}

function isMapped(bytes: readonly number[]): boolean {
  return bytes.length === 16 && MAPPED_PREFIX.every((byte, i) => bytes[i] === byte)
}

/** Converts `::1.2.3.4` to `::102:304`: ipaddr.js parses the former as `::ffff:1.2.3.4`, which is another address. */
function withoutQuad(text: string): string {
  if (!text.includes('.')) return text
  const start = text.lastIndexOf(':') + 1
  const [a = 0, b = 0, c = 0, d = 0] = ipaddr.IPv4.parse(text.slice(start)).octets
  return `${text.slice(0, start)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** RFC 5952 §4; §5 only for mapped addresses, as the operating system formats them. */
function ipv6Text(bytes: readonly number[]): string {
  if (isMapped(bytes)) return `::ffff:${bytes.slice(12).join('.')}`
  return ipaddr.fromByteArray([...bytes]).toString()
}
