/**
 * Address blocks in CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3).
 *
 * Bits set after the prefix are an error and not masked: `10.0.0.1/8` may as well mean one host as sixteen million
 * addresses. Blocks within `::ffff:0:0/96` are converted to IPv4 blocks, since mapped addresses are always compared as
 * IPv4; otherwise such a block would never match.
 */
import ipaddr from 'ipaddr.js'
import {
  type AddressFamily,
  type IpAddress,
  ipAddressFromBytes,
  parseIpAddress,
  unmapIpv4,
} from './ip-address.js'

/** `prefix` in bits; `mask` the bytes in which those bits are set; `text` canonical, always with the prefix. */
export interface Cidr {
  readonly family: AddressFamily
  readonly bytes: readonly number[]
  readonly mask: readonly number[]
  readonly prefix: number
  readonly text: string
}

const PREFIX = /^(?:0|[1-9]\d{0,2})$/
const MAPPED_BITS = 96

/**
 * @param text `10.0.0.0/8`, `2001:db8::/32`, or an address for a block of one
 * @throws RangeError whose message says what was expected
 */
export function parseCidr(text: string): Cidr {
  const slash = text.indexOf('/')
  const ip = parseIpAddress(slash === -1 ? text : text.slice(0, slash))
  if (ip === undefined) {
    throw new RangeError(`expected an IP address or a CIDR such as 10.0.0.0/8, found "${text}"`)
  }
  const bits = ip.bytes.length * 8
  const digits = slash === -1 ? String(bits) : text.slice(slash + 1)
  const prefix = PREFIX.test(digits) ? Number(digits) : Number.POSITIVE_INFINITY
  if (prefix > bits) throw new RangeError(`expected a prefix length of 0 to ${bits} in "${text}"`)
  const mask = maskOf(ip.family, prefix)
  const network = ip.bytes.map((byte, i) => byte & (mask[i] ?? 0))
  if (network.some((byte, i) => byte !== ip.bytes[i])) {
    const block = `${ipAddressFromBytes(network).text}/${prefix}`
    throw new RangeError(`"${text}" has bits set after the prefix; write ${block} or ${ip.text}/${bits}`)
  }
  const base = prefix >= MAPPED_BITS ? unmapIpv4(ip) : ip
  return blockOf(base, base === ip ? prefix : prefix - MAPPED_BITS)
}

/** The block that contains only this address; a mapped address is converted to IPv4. */
export function cidrOfAddress(address: IpAddress): Cidr {
  const ip = unmapIpv4(address)
  return blockOf(ip, ip.bytes.length * 8)
}

function blockOf({ family, bytes, text }: IpAddress, prefix: number): Cidr {
  return { family, bytes, mask: maskOf(family, prefix), prefix, text: `${text}/${prefix}` }
}

function maskOf(family: AddressFamily, prefix: number): readonly number[] {
  const kind = family === 4 ? ipaddr.IPv4 : ipaddr.IPv6
  return kind.subnetMaskFromPrefixLength(prefix).toByteArray()
}

/** A mapped IPv6 address is compared as its IPv4 address, so no IPv6 block contains it, not even `::/0`. */
export function cidrContains(cidr: Cidr, address: IpAddress): boolean {
  const ip = unmapIpv4(address)
  if (ip.family !== cidr.family) return false
  return cidr.bytes.every((byte, i) => ((ip.bytes[i] ?? 0) & (cidr.mask[i] ?? 0)) === byte)
}

/** True for a block of one address. */
export function isExact(cidr: Cidr): boolean {
  return cidr.prefix === cidr.bytes.length * 8
}
