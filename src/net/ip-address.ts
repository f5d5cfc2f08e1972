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
const DOT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const LOWER_A = 0x61

/** @returns the address, or undefined for anything but a plain IPv4 or IPv6 address (zones and brackets too) */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (!text.includes(':')) return isIPv4(text) ? { family: 4, text, bytes: quadBytes(text) } : undefined
  if (text.includes('%') || !isIPv6(text)) return undefined
  return new Ipv6Address(expandIpv6(text))
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

/*
 * Both are read digit by digit, from text known to be well-formed: with split and Number this would take most of the
 * time of a decision.
 */

function quadBytes(text: string): number[] {
  const bytes = [0, 0, 0, 0]
  let at = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === DOT) at++
    else bytes[at] = (bytes[at] ?? 0) * 10 + code - ZERO
  }
  return bytes
}

function expandIpv6(text: string): number[] {
  if (text.includes('.')) return expandIpv6(withoutQuad(text))
  const bytes = new Array<number>(16).fill(0)
  let at = 0
  let gap = -1
  let digits = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === COLON) {
      if (digits === 0) gap = at
      else at += 2
      digits = 0
    } else {
      const value = ((bytes[at] ?? 0) << 12) | ((bytes[at + 1] ?? 0) << 4) | hexDigit(code)
      bytes[at] = (value >> 8) & 0xff
      bytes[at + 1] = value & 0xff
      digits++
    }
  }
  if (gap === -1) return bytes
  const end = digits === 0 ? at : at + 2
  const tail = 16 - (end - gap)
  return bytes.copyWithin(tail, gap, end).fill(0, gap, tail)
}

function hexDigit(code: number): number {
  return code <= NINE ? code - ZERO : (code | 0x20) - LOWER_A + 10
}

/** `::ffff:1.2.3.4` as `::ffff:102:304`. */
function withoutQuad(text: string): string {
  const start = text.lastIndexOf(':') + 1
  const [a = 0, b = 0, c = 0, d = 0] = quadBytes(text.slice(start))
  return `${text.slice(0, start)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** RFC 5952 §4, and §5 for mapped addresses alone: that is how the operating system reports them, too. */
function ipv6Text(bytes: readonly number[]): string {
  if (isMapped(bytes)) return `::ffff:${bytes.slice(12).join('.')}`
  const groups: number[] = []
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0))
  const gap = longestZeroRun(groups)
  if (gap.length < 2) return hexGroups(groups, 0, 8)
  return `${hexGroups(groups, 0, gap.start)}::${hexGroups(groups, gap.start + gap.length, 8)}`
}

function hexGroups(groups: readonly number[], start: number, end: number): string {
  let text = ''
  for (let i = start; i < end; i++) text += `${i === start ? '' : ':'}${(groups[i] ?? 0).toString(16)}`
  return text
}

/** The first of the longest runs of zero groups. */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let length = 0
  for (let i = 0; i < groups.length; i++) {
    length = groups[i] === 0 ? length + 1 : 0
    if (length > best.length) best = { start: i - length + 1, length }
  }
  return best
}
