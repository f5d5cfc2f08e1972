/**
 * The errors for requests over a limit: 429 if it is a limit of the client (RFC 6585 §4), 503 if it is one of the whole proxy
 * (RFC 9110 §15.6.4), each with the time after which a retry may succeed.
 *
 * The proxy error type is `http_request_denied`: the limit is in the configuration, and the request was not forwarded.
 * `connection_limit_reached` is for connections to the next hop (RFC 9209 §2.3.12).
 */
import { ProxyError } from '../errors.js'

/** The keys of `limits`, and `client_tunnels` for `tunnels` of an entry of `clients`: a closed list, for logs and metrics. */
export const LIMIT_NAMES = [
  'connections',
  'connections_per_client',
  'tunnels',
  'tunnels_per_client',
  'client_tunnels',
  'requests_per_second',
  'bytes_per_hour',
  'dns_lookups',
  'dns_lookups_per_client',
] as const

export type LimitName = (typeof LIMIT_NAMES)[number]

/** Seconds until a retry if it is not known when capacity will be free. */
const RETRY_SECONDS = 5

interface Row {
  readonly status: 429 | 503
  /** The clause of the status line. */
  readonly message: string
  /** @param key the configuration key that sets the limit */
  readonly detail: (value: string, key: string) => string
  /** Whether the connection is closed after the response. */
  readonly close?: boolean
}

const ROWS = {
  connections: {
    status: 503,
    message: 'the proxy has too many connections',
    detail: (value, key) => `The proxy has as many client connections as ${key} allows (${value}).`,
    close: true,
  },
  connections_per_client: {
    status: 429,
    message: 'too many connections from this address',
    detail: (value, key) =>
      `This address has as many connections as ${key} allows (${value}); close some, or raise it.`,
    close: true,
  },
  tunnels: {
    status: 503,
    message: 'the proxy has too many tunnels',
    detail: (value, key) => `The proxy has as many tunnels as ${key} allows (${value}).`,
  },
  tunnels_per_client: {
    status: 429,
    message: 'too many tunnels of this client',
    detail: (value, key) =>
      `This client has as many tunnels as ${key} allows (${value}); close some, or raise it.`,
  },
  client_tunnels: {
    status: 429,
    message: 'too many tunnels of these clients',
    detail: (value, key) =>
      `The clients of this entry have as many tunnels together as ${key} allows (${value}); close some, or raise it.`,
  },
  requests_per_second: {
    status: 429,
    message: 'too many requests of this client',
    detail: (value, key) =>
      `This client has sent more requests than ${key} allows (${value} a second, as many in one burst).`,
  },
  bytes_per_hour: {
    status: 429,
    message: 'this client has used up its bytes',
    detail: (value, key) =>
      `This client has passed as many bytes as ${key} allows (${value}); its tunnels were closed.`,
  },
  dns_lookups: {
    status: 503,
    message: 'too many names wait to be looked up',
    detail: (value, key) =>
      `As many names are looked up or wait for it as ${key} allows (${value}), and this one would have to wait behind them.`,
  },
  dns_lookups_per_client: {
    status: 429,
    message: 'too many names of this client wait to be looked up',
    detail: (value, key) =>
      `This client waits for as many names to be looked up as ${key} allows (${value}); ask for fewer at a time, or raise it.`,
  },
} as const satisfies Record<LimitName, Row>

export interface LimitContext {
  /** Seconds until a retry may succeed, if that is known. */
  readonly waitSeconds?: number | undefined
  /** The configuration key that sets the limit, if it is not the key of that name in `limits`. */
  readonly key?: string | undefined
}

/** @param value the value of the key, as in the file */
export function limitReached(
  name: LimitName,
  value: string,
  { waitSeconds = RETRY_SECONDS, key = `limits.${name}` }: LimitContext = {},
): ProxyError {
  const { status, message, detail, close = false }: Row = ROWS[name]
  return new ProxyError('http_request_denied', message, {
    status,
    reason: `limit_${name}`,
    close,
    detail: detail(value, key),
    fields: ['Retry-After', String(Math.max(1, Math.ceil(waitSeconds)))],
  })
}
