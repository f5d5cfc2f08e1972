/**
 * Where to listen: `127.0.0.1:3128`, `[::1]:3128`, `localhost:0`.
 *
 * The host is an IP literal or localhost, never another name: what a name resolves to at start would decide who can
 * reach the proxy. Port 0 asks the system for any free port.
 */
import { parseHost } from '../http/authority.js'

/** `host` without brackets, in lower case; `port` 0 to 65535. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** For the JSON Schema; parseListenAddress decides. */
export const LISTEN_PATTERN = '^(localhost|[0-9.]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$'
export const EXPECTED_LISTEN = 'expected an address such as "127.0.0.1:3128" or "[::1]:3128"'

const PORT = /^(?:0|[1-9]\d{0,4})$/

/**
 * @param text `host:port`, IPv6 in brackets
 * @throws RangeError with a clause that says what was expected
 */
export function parseListenAddress(text: string): ListenAddress {
  const colon = text.lastIndexOf(':')
  const digits = text.slice(colon + 1)
  if (colon === -1 || text.endsWith(']')) throw refused(text, 'without a port')
  if (!PORT.test(digits) || Number(digits) > 65535) throw refused(text, 'with a port that is not 0 to 65535')
  const host = text.slice(0, colon)
  if (host === '' || host === '*') throw refused(text, `write 0.0.0.0:${digits} for every IPv4 interface`)
  if (!host.startsWith('[') && host.includes(':')) throw refused(text, 'IPv6 goes in brackets')
  return { host: hostOf(text, host), port: Number(digits) }
}

/** The text that parseListenAddress reads. */
export function serializeListenAddress({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
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
  return new RangeError(`${EXPECTED_LISTEN}, found "${text}", ${clause}`)
}
