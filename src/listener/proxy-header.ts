/**
 * The PROXY header, in which a load balancer names the client of a connection (The PROXY protocol, versions 1 and 2,
 * §2).
 *
 * The header decides who a client is, so it is parsed strictly: one space between parts, plain numbers and addresses,
 * and no byte that the specification does not allow. The destination must be well-formed and is ignored, as are the
 * extensions (TLVs) of version 2.
 */
import { type IpAddress, ipAddressFromBytes, parseIpAddress, unmapIpv4 } from '../net/ip-address.js'

export interface ProxyHeader {
  /** Length of the header in bytes; the client's own bytes follow. */
  readonly length: number
  /** The client; undefined when the connection is the balancer's own (UNKNOWN, LOCAL, AF_UNSPEC). */
  readonly source: IpAddress | undefined
}

/** Includes CRLF (§2.1). */
const MAX_LINE_BYTES = 107
const V1_START = Buffer.from('PROXY ', 'latin1')
const V2_START = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const V2_FIXED_BYTES = 16
const CR = 0x0d
const LF = 0x0a
const PORT = /^(?:0|[1-9]\d{0,4})$/
const VISIBLE = /^[ -~]*$/

/** Length of an address of version 2 in bytes, by the byte for family and transport (§2.2); only stream transports. */
const ADDRESS_BYTES: ReadonlyMap<number, number> = new Map([
  [0x11, 4],
  [0x21, 16],
])
const UNSPECIFIED = 0x00

/**
 * @param bytes the beginning of a connection
 * @returns undefined when more bytes are needed
 * @throws RangeError with one clause as soon as it is certain that the bytes do not begin with a valid header
 */
export function parseProxyHeader(bytes: Buffer): ProxyHeader | undefined {
  if (startsLike(bytes, V1_START)) return bytes.length < V1_START.length ? undefined : parseLine(bytes)
  if (startsLike(bytes, V2_START)) return bytes.length < V2_START.length ? undefined : parseBinary(bytes)
  throw new RangeError('does not begin with a PROXY header')
}

/** Whether one of the two begins with the other. */
function startsLike(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length)
  return bytes.subarray(0, length).equals(start.subarray(0, length))
}

/** Version 1: one line of text (§2.1). */
function parseLine(bytes: Buffer): ProxyHeader | undefined {
  const end = bytes.indexOf(CR)
  const line = bytes.toString('latin1', 0, end === -1 ? bytes.length : end)
  if (!VISIBLE.test(line)) throw new RangeError('an invalid byte in the PROXY line')
  if (line.length > MAX_LINE_BYTES - 2) throw new RangeError('the PROXY line is too long')
  if (end === -1 || bytes.length === end + 1) return undefined
  if (bytes[end + 1] !== LF) throw new RangeError('a CR in the PROXY line without LF')
  const length = end + 2
  const [, protocol, ...ends] = line.split(' ')
  // What follows UNKNOWN is ignored.
  if (protocol === 'UNKNOWN') return { length, source: undefined }
  const family = protocol === 'TCP4' ? 4 : protocol === 'TCP6' ? 6 : undefined
  if (family === undefined) throw new RangeError('neither TCP4 nor TCP6 nor UNKNOWN in the PROXY line')
  const [from, to, ...ports] = ends
  const source = parseIpAddress(from ?? '')
  if (source?.family !== family || parseIpAddress(to ?? '')?.family !== family) {
    throw new RangeError(`an address in the PROXY line that is not one of ${protocol}`)
  }
  if (ports.length !== 2 || !ports.every(port => PORT.test(port) && Number(port) <= 65535)) {
    throw new RangeError('not two ports in the PROXY line')
  }
  return { length, source: unmapIpv4(source) }
}

/** Version 2: 16 bytes, of which the last two are the length of everything that follows (§2.2). */
function parseBinary(bytes: Buffer): ProxyHeader | undefined {
  const [command, transport] = [bytes[12], bytes[13]]
  if (command === undefined) return undefined
  if (command !== 0x20 && command !== 0x21) throw new RangeError('neither LOCAL nor PROXY of version 2')
  if (transport === undefined) return undefined
  const isLocal = command === 0x20
  const addressBytes = ADDRESS_BYTES.get(transport)
  if (!isLocal && transport !== UNSPECIFIED && addressBytes === undefined) {
    throw new RangeError('a PROXY header for another protocol than TCP')
  }
  if (bytes.length < V2_FIXED_BYTES) return undefined
  const rest = bytes.readUInt16BE(14)
  const length = V2_FIXED_BYTES + rest
  const sourceBytes = isLocal ? undefined : addressBytes
  // Both addresses, and two bytes for each port.
  if (sourceBytes !== undefined && rest < 2 * sourceBytes + 4)
    throw new RangeError('a PROXY header too short for its addresses')
  if (bytes.length < length) return undefined
  if (sourceBytes === undefined) return { length, source: undefined }
  const source = ipAddressFromBytes([...bytes.subarray(V2_FIXED_BYTES, V2_FIXED_BYTES + sourceBytes)])
  return { length, source: unmapIpv4(source) }
}
