/**
 * IP addresses: one strict reading of text into bytes, and one canonical text for each address
 * (RFC 4291 §2.2, RFC 5952).
 *
 * Only the plain spellings are read: four decimal parts, or IPv6 with neither brackets nor a zone. Addresses are
 * judged by their bytes, and the bytes are taken apart here, because a library that reads `::1.2.3.4` as
 * `::ffff:1.2.3.4`, or `0177.0.0.1` as loopback, would judge another address than the one that is dialled.
 */
import { isIPv4, isIPv6 } from 'node:net'

export type AddressFamily = 4 | 6

/** `text` is canonical: equal addresses have equal texts. `bytes` are 4 or 16, in network order. */
export interface IpAddress {
  readonly family: AddressFamily
  readonly text: string
  readonly bytes: readonly number[]
}

const MAPPED_PREFIX = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] as const

/** @returns the address, or undefined for anything but a plain IPv4 or IPv6 address (zones and brackets too) */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return ipAddressFromBytes(quadBytes(text))
  if (text.includes('%') || !isIPv6(text)) return undefined
  return ipAddressFromBytes(expandIpv6(text))
}

/**
 * @param bytes 4 or 16 integers of 0 to 255
 * @throws RangeError when there are not 4 or 16
 */
export function ipAddressFromBytes(bytes: readonly number[]): IpAddress {
  if (bytes.length === 4) return { family: 4, text: bytes.join('.'), bytes }
  if (bytes.length === 16) return { family: 6, text: ipv6Text(bytes), bytes }
  throw new RangeError(`an IP address has 4 or 16 bytes, found ${bytes.length}`)
}

/** The IPv4 address inside `::ffff:0:0/96`, to which the operating system sends; any other address unchanged. */
export function unmapIpv4(ip: IpAddress): IpAddress {
  return isMapped(ip.bytes) ? ipAddressFromBytes(ip.bytes.slice(12)) : ip
}

function isMapped(bytes: readonly number[]): boolean {
  return bytes.length === 16 && MAPPED_PREFIX.every((byte, i) => bytes[i] === byte)
}

function quadBytes(text: string): number[] {
  return text.split('.').map(Number)
}

function expandIpv6(text: string): number[] {
  const [left = '', right] = text.split('::')
  const head = groupBytes(left)
  if (right === undefined) return head
  const tail = groupBytes(right)
  return [...head, ...new Array<number>(16 - head.length - tail.length).fill(0), ...tail]
}

function groupBytes(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap(group => {
    if (group.includes('.')) return quadBytes(group)
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 0xff]
  })
}

/** RFC 5952 §4, and §5 for mapped addresses alone: that is how the operating system reports them, too. */
function ipv6Text(bytes: readonly number[]): string {
  if (isMapped(bytes)) return `::ffff:${bytes.slice(12).join('.')}`
  const groups: number[] = []
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0))
  const gap = longestZeroRun(groups)
  const hex = groups.map(group => group.toString(16))
  if (gap.length < 2) return hex.join(':')
  return `${hex.slice(0, gap.start).join(':')}::${hex.slice(gap.start + gap.length).join(':')}`
}

/** The first of the longest runs of zero groups. */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let length = 0
  for (const [i, group] of groups.entries()) {
    length = group === 0 ? length + 1 : 0
    if (length > best.length) best = { start: i - length + 1, length }
  }
  return best
}
