/**
 * The URL of a Redis or Valkey server: `redis://[user[:password]@]host[:port][/database]`, `rediss://` with TLS, as
 * registered with IANA, and `unix://[user[:password]@]/path[?db=number]` for a Unix socket.
 */
import { withoutUserinfo } from './upstream-url.js'

export interface RedisUrl {
  readonly tls: boolean
  /** A name or an address, without brackets. */
  readonly host: string
  readonly port: number
  /** The path of a Unix socket, which is used instead of host and port. */
  readonly path: string | undefined
  readonly username: string | undefined
  /** Never logged. */
  readonly password: string | undefined
  readonly database: number
}

const EXPECTED_REDIS_URL =
  'expected a URL such as "redis://10.0.0.7:6379", "rediss://cache.example/1" or "unix:///run/redis.sock"'

const DEFAULT_PORT = 6379
const UNIX_URL = /^unix:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\/[^?#]+)(?:\?db=(\d{1,9}))?$/
const DATABASE_PATH = /^\/?(\d{0,9})$/

/** @throws RangeError whose message says what was expected, and holds no credentials */
export function parseRedisUrl(text: string): RedisUrl {
  if (text.startsWith('unix:')) return parseUnixUrl(text)
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw refused(text, 'which is no URL')
  }
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw refused(text, 'which does not begin with redis://, rediss:// or unix://')
  }
  if (url.hostname === '') throw refused(text, 'without a host')
  if (url.port === '0') throw refused(text, 'with port 0')
  if (url.search !== '' || url.hash !== '') throw refused(text, 'with a query or fragment')
  const database = DATABASE_PATH.exec(url.pathname)?.[1]
  if (database === undefined) throw refused(text, 'whose path is no number of a database')
  return {
    tls: url.protocol === 'rediss:',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    path: undefined,
    username: decoded(text, url.username),
    password: decoded(text, url.password),
    database: Number(database),
  }
}

function parseUnixUrl(text: string): RedisUrl {
  const match = UNIX_URL.exec(text)
  if (match === null) throw refused(text, 'without the path of a Unix socket')
  const [, username = '', password = '', path = '', database = ''] = match
  return {
    tls: false,
    host: '',
    port: 0,
    path: decoded(text, path),
    username: decoded(text, username),
    password: decoded(text, password),
    database: Number(database),
  }
}

function decoded(text: string, part: string): string | undefined {
  try {
    return part === '' ? undefined : decodeURIComponent(part)
  } catch {
    throw refused(text, 'with a percent sign that encodes no byte')
  }
}

function refused(text: string, clause: string): RangeError {
  return new RangeError(`${EXPECTED_REDIS_URL}, found "${withoutUserinfo(text)}", ${clause}`)
}
