/**
 * Where to listen: `127.0.0.1:3128`, `[::1]:3128`, `localhost:0`; `unix:/run/sluice/proxy.sock`; `systemd:proxy`.
 *
 * A host is an IP address or localhost, and no other name: its DNS answer at the start would decide who can reach the
 * proxy. Port 0 means any free port.
 */
import { normalize } from 'node:path'
import { parseHost } from '../http/authority.js'
import { classifyAddress } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'

/** `host` without brackets, in lower case; `port` 0 to 65535. */
export interface TcpAddress {
  readonly host: string
  readonly port: number
}

/** A Unix socket; `path` is absolute, and no longer than the system allows. */
export interface UnixAddress {
  readonly path: string
  readonly host?: never
  readonly port?: never
}

/** Sockets that systemd opened; an undefined name means those that no other key names. */
export interface SystemdAddress {
  readonly descriptorName: string | undefined
  readonly host?: never
  readonly port?: never
}

export type ListenAddress = TcpAddress | UnixAddress | SystemdAddress

const TCP_PATTERN = '(localhost|[0-9.]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}'
/** For the JSON Schema; the parsers are stricter. */
export const TCP_ADDRESS_PATTERN = `^${TCP_PATTERN}$`
export const LISTEN_PATTERN = `^(${TCP_PATTERN}|unix:/.+|systemd(:[!-9;-~]+)?)$`
export const TCP_ADDRESS_TITLE = 'an address such as "127.0.0.1:3128" or "[::1]:3128"'
export const LISTEN_TITLE = `${TCP_ADDRESS_TITLE}, "unix:/PATH" or "systemd:NAME"`

/** `listen.admin` when the key is absent. */
export const DEFAULT_ADMIN = '127.0.0.1:9128'

const UNIX = 'unix:'
const SYSTEMD = 'systemd'
const PORT = /^(?:0|[1-9]\d{0,4})$/
/** The size of `sun_path`, without its final NUL. */
const MAX_PATH_BYTES = 107
/** The syntax of FileDescriptorName= of systemd.socket(5), without the colon, which separates names in LISTEN_FDNAMES. */
const DESCRIPTOR_NAME = /^[!-9;-~]{1,255}$/

/**
 * @param text `host:port` with IPv6 in brackets, `unix:` and an absolute path, or `systemd` with or without a name
 * @throws RangeError whose message says what was expected
 */
export function parseListenAddress(text: string): ListenAddress {
  if (text.startsWith(UNIX)) return { path: socketPath(text.slice(UNIX.length)) }
  if (text === SYSTEMD) return { descriptorName: undefined }
  if (!text.startsWith(`${SYSTEMD}:`)) return parseTcpAddress(text)
  const name = text.slice(SYSTEMD.length + 1)
  if (DESCRIPTOR_NAME.test(name)) return { descriptorName: name }
  throw new RangeError(`expected systemd:NAME with the FileDescriptorName= of a socket unit, found "${text}"`)
}

/** The same for a key that takes a single listener. */
export function parseSingleAddress(text: string): ListenAddress {
  if (text === SYSTEMD) throw new RangeError('expected systemd:NAME, found "systemd", which can be several')
  return parseListenAddress(text)
}

/**
 * @param text `host:port`, IPv6 in brackets
 * @throws RangeError whose message says what was expected
 */
export function parseTcpAddress(text: string): TcpAddress {
  const colon = text.lastIndexOf(':')
  const digits = text.slice(colon + 1)
  if (colon === -1 || text.endsWith(']')) throw refused(text, 'without a port')
  if (!PORT.test(digits) || Number(digits) > 65535) throw refused(text, 'with a port that is not 0 to 65535')
  const host = text.slice(0, colon)
  if (host === '' || host === '*') throw refused(text, `write 0.0.0.0:${digits} for every IPv4 interface`)
  if (!host.startsWith('[') && host.includes(':')) throw refused(text, 'IPv6 goes in brackets')
  return { host: hostOf(text, host), port: Number(digits) }
}

export function isTcp(address: ListenAddress): address is TcpAddress {
  return 'host' in address
}

/** Whether only this machine can reach it. */
export function isLoopback({ host }: TcpAddress): boolean {
  const ip = parseIpAddress(host)
  return ip === undefined ? host === 'localhost' : classifyAddress(ip) === 'loopback'
}

/** The text that parseListenAddress parses. */
export function serializeListenAddress(address: ListenAddress): string {
  if ('path' in address) return UNIX + address.path
  if ('descriptorName' in address) {
    return address.descriptorName === undefined ? SYSTEMD : `${SYSTEMD}:${address.descriptorName}`
  }
  const { host, port } = address
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** The path is absolute: on the command line there is no configuration file where a relative one could start. */
function socketPath(path: string): string {
  const bytes = Buffer.byteLength(path)
  if (!path.startsWith('/') || path.includes('\0')) {
    throw new RangeError(`expected unix: and an absolute path, found "${UNIX}${path}"`)
  }
  // Normalized, so that two keys with the same path are found.
  if (bytes <= MAX_PATH_BYTES) return normalize(path)
  throw new RangeError(`expected a path of at most ${MAX_PATH_BYTES} bytes, found ${bytes}: "${UNIX}${path}"`)
}

function hostOf(text: string, host: string): string {
  const clause = 'whose host is neither an IP address nor localhost'
  let parsed: ReturnType<typeof parseHost>
  try {
    parsed = parseHost(host)
  } catch {
    throw refused(text, clause)
  }
  if (parsed.kind === 'name' && parsed.name !== 'localhost') throw refused(text, clause)
  return parsed.name
}

function refused(text: string, clause: string): RangeError {
  return new RangeError(`expected ${TCP_ADDRESS_TITLE}, found "${text}", ${clause}`)
}
