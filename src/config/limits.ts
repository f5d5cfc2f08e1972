/**
 * The keys of `limits`: times, sizes, and the counts and rates that clients share the proxy by; and those of them that an
 * entry of `clients` may have for itself.
 */
import * as z from 'zod'
import { duration, section, size, wholeNumber } from './fields.js'

/** Node's timers have 32 bits: beyond 24 days they would fire at once. */
const LONGEST = '24d'

const count = () => wholeNumber(1, 1_000_000)
const byteCount = () => size('1KiB', '1000000GiB')
const tunnelTime = () => duration('10ms', LONGEST)

export const limits = section({
  connections: count()
    .prefault(20_000)
    .describe(
      'Most client connections in all, tunnels included. Left out: no more than the file descriptors allow.',
    ),
  connections_per_client: count()
    .prefault(2000)
    .describe('Most connections from one address (of IPv6, one /64).'),
  tunnels: count()
    .prefault(10_000)
    .describe(
      'Most tunnels in all, upgraded connections included. Left out: no more than the file descriptors allow.',
    ),
  tunnels_per_client: count().prefault(1000).describe('Most tunnels of one client.'),
  requests_per_second: z
    .exactOptional(count())
    .describe('Most requests a second of one client, and most in one burst. Left out: no limit.')
    .meta({ examples: [100] }),
  bytes_per_hour: z
    .exactOptional(byteCount())
    .describe(
      'Most bytes an hour of one client, both directions together; then its tunnels are closed. Left out: no limit.',
    )
    .meta({ examples: ['50GiB'] }),
  dns_lookups: count()
    .prefault(1000)
    .describe('Most lookups of names that run or wait, in all; counted in each worker process.'),
  dns_lookups_per_client: count()
    .prefault(250)
    .describe('Most names that one client waits for; counted in each worker process.'),
  body_min_rate: size('0B', '1GiB')
    .prefault('1KiB')
    .describe('Slowest request body, in bytes a second over `body_idle`; `0B` is no limit.'),
  tunnel_idle: tunnelTime()
    .prefault('10m')
    .describe('Longest silence of a tunnel, both directions together.'),
  tunnel_lifetime: tunnelTime().prefault('24h').describe('Longest life of a tunnel.'),
  connect_timeout: duration('10ms', '1h')
    .prefault('10s')
    .describe('Longest wait for an upstream connection, over all addresses.'),
  header_timeout: duration('10ms', '1h')
    .prefault('10s')
    .describe('Longest time that a request head may take, or the TLS hello that `sni: verify` waits for.'),
  body_idle: duration('10ms', '1d')
    .prefault('30s')
    .describe(
      'Longest pause in a request body; longest time that a client takes nothing of a response, or an upstream nothing of a request.',
    ),
  keepalive_idle: duration('10ms', '1d')
    .prefault('60s')
    .describe('Longest wait for the next request of a connection.'),
  response_timeout: duration('10ms', '1d')
    .prefault('60s')
    .describe('Longest wait for the head of a response, from the last byte of the request.'),
  header_bytes: size('1KiB', '1MiB')
    .prefault('16KiB')
    .describe('Largest header section of a request or a response, all fields together.'),
  header_fields: wholeNumber(10, 10_000).prefault(100).describe('Most fields of a header section.'),
  target_bytes: size('256B', '1MiB').prefault('8KiB').describe('Longest request target.'),
}).transform(file => ({
  connections: file.connections,
  connectionsPerClient: file.connections_per_client,
  tunnels: file.tunnels,
  tunnelsPerClient: file.tunnels_per_client,
  ...(file.requests_per_second === undefined ? {} : { requestsPerSecond: file.requests_per_second }),
  ...(file.bytes_per_hour === undefined ? {} : { bytesPerHour: file.bytes_per_hour }),
  dnsLookups: file.dns_lookups,
  dnsLookupsPerClient: file.dns_lookups_per_client,
  /** Bytes a second. */
  bodyMinRate: file.body_min_rate,
  tunnelIdleMs: file.tunnel_idle,
  tunnelLifetimeMs: file.tunnel_lifetime,
  connectTimeoutMs: file.connect_timeout,
  headerTimeoutMs: file.header_timeout,
  bodyIdleMs: file.body_idle,
  keepaliveIdleMs: file.keepalive_idle,
  responseTimeoutMs: file.response_timeout,
  headerBytes: file.header_bytes,
  headerFields: file.header_fields,
  targetBytes: file.target_bytes,
}))

/** Keys of `limits` that an entry cannot have: they apply before the client is known, or to what all clients share. */
const SHARED_KEYS = [
  'connections',
  'dns_lookups',
  'body_min_rate',
  'connect_timeout',
  'header_timeout',
  'body_idle',
  'keepalive_idle',
  'response_timeout',
  'header_bytes',
  'header_fields',
  'target_bytes',
]
const SHARED = 'is the same for all clients: it belongs to `limits` at the top of the file'

/**
 * `limits` of an entry of `clients`, each in place of the key of the same name at the top of the file, except for `tunnels`,
 * which is one limit more: that of all clients of the entry together.
 */
export const clientLimits = section(
  {
    tunnels: z
      .exactOptional(count())
      .describe('Most tunnels of all clients of the entry together, besides `limits.tunnels`.')
      .meta({ examples: [2000] }),
    connections_per_client: z
      .exactOptional(count())
      .describe('Most connections from one address; only of entries without `basic` and `certificate`.')
      .meta({ examples: [500] }),
    tunnels_per_client: z
      .exactOptional(count())
      .describe('Most tunnels of one client.')
      .meta({ examples: [100] }),
    requests_per_second: z
      .exactOptional(count())
      .describe('Most requests a second of one client, and in one burst.')
      .meta({ examples: [50] }),
    bytes_per_hour: z
      .exactOptional(byteCount())
      .describe('Most bytes an hour of one client, both directions together; then its tunnels are closed.')
      .meta({ examples: ['10GiB'] }),
    dns_lookups_per_client: z
      .exactOptional(count())
      .describe('Most names that one client waits for, in each worker process.')
      .meta({ examples: [100] }),
    tunnel_idle: z
      .exactOptional(tunnelTime())
      .describe('Longest silence of a tunnel, both directions together.')
      .meta({ examples: ['5m'] }),
    tunnel_lifetime: z
      .exactOptional(tunnelTime())
      .describe('Longest life of a tunnel.')
      .meta({ examples: ['8h'] }),
  },
  Object.fromEntries(SHARED_KEYS.map(key => [key, SHARED])),
).transform(file => ({
  connectionsPerClient: file.connections_per_client,
  tunnels: file.tunnels,
  tunnelsPerClient: file.tunnels_per_client,
  requestsPerSecond: file.requests_per_second,
  bytesPerHour: file.bytes_per_hour,
  dnsLookupsPerClient: file.dns_lookups_per_client,
  tunnelIdleMs: file.tunnel_idle,
  tunnelLifetimeMs: file.tunnel_lifetime,
}))
