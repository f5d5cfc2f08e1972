/**
 * The limits of a client: those of its entry of `clients`, and where the entry sets none those of `limits`. They are
 * resolved when a configuration is loaded, so that no request looks them up.
 */
import type { Config } from '../config/schema.js'
import type { CloseReason } from '../outcome.js'
import type { QueueShare } from './fair-queue.js'

type ClientEntry = Config['clients'][number]
type EntryLimits = NonNullable<ClientEntry['limits']>

/** The keys that `limits` of an entry of `clients` may have, with their names in the configuration. */
export const CLIENT_LIMITS = {
  connections_per_client: 'connectionsPerClient',
  tunnels: 'tunnels',
  tunnels_per_client: 'tunnelsPerClient',
  requests_per_second: 'requestsPerSecond',
  bytes_per_hour: 'bytesPerHour',
  dns_lookups_per_client: 'dnsLookupsPerClient',
  tunnel_idle: 'tunnelIdleMs',
  tunnel_lifetime: 'tunnelLifetimeMs',
} as const satisfies Record<string, keyof EntryLimits>

export type ClientLimitKey = keyof typeof CLIENT_LIMITS

/** How long a tunnel may last. */
export interface TunnelTimes {
  /** Milliseconds without a byte in either direction. */
  readonly idleMs: number
  /** Milliseconds from its start, busy or not. */
  readonly lifetimeMs: number
}

export interface ClientLimits {
  /** The name of the entry. */
  readonly client: string
  readonly connectionsPerClient: number
  /** Of all clients of the entry together; undefined for no limit. */
  readonly tunnels: number | undefined
  readonly tunnelsPerClient: number
  /** Undefined for no limit. */
  readonly requestsPerSecond: number | undefined
  /** Undefined for no limit. */
  readonly bytesPerHour: number | undefined
  /** Undefined where the limit is that of the queue of lookups. */
  readonly lookups: QueueShare | undefined
  readonly tunnelTimes: TunnelTimes
  /** Whether every exchange is counted, and so needs a reservation; a tunnel always needs one. */
  readonly countsRequests: boolean
  /** The keys that the entry sets itself. */
  readonly own: ReadonlySet<string>
}

/** The limits of an entry of `clients`. */
export function limitsOfEntry(
  { name, limits: set }: Pick<ClientEntry, 'name' | 'limits'>,
  limits: Config['limits'],
): ClientLimits {
  const own = new Set(
    Object.entries(CLIENT_LIMITS).flatMap(([key, of]) => (set?.[of] === undefined ? [] : [key])),
  )
  const requestsPerSecond = set?.requestsPerSecond ?? limits.requestsPerSecond
  const bytesPerHour = set?.bytesPerHour ?? limits.bytesPerHour
  const perClient = set?.dnsLookupsPerClient
  return {
    client: name,
    connectionsPerClient: set?.connectionsPerClient ?? limits.connectionsPerClient,
    tunnels: set?.tunnels,
    tunnelsPerClient: set?.tunnelsPerClient ?? limits.tunnelsPerClient,
    requestsPerSecond,
    bytesPerHour,
    lookups:
      perClient === undefined ? undefined : { perClient, key: keyOfEntry(name, 'dns_lookups_per_client') },
    tunnelTimes: {
      idleMs: set?.tunnelIdleMs ?? limits.tunnelIdleMs,
      lifetimeMs: set?.tunnelLifetimeMs ?? limits.tunnelLifetimeMs,
    },
    countsRequests: requestsPerSecond !== undefined || bytesPerHour !== undefined,
    own,
  }
}

/** The limits of every entry of `clients`, by its name. */
export function limitsOfEntries({
  clients,
  limits,
}: Pick<Config, 'clients' | 'limits'>): Map<string, ClientLimits> {
  return new Map(clients.map(entry => [entry.name, limitsOfEntry(entry, limits)]))
}

/** The limits of a request whose client is not known: it is refused before it meets any. */
export const NO_CLIENT_LIMITS: ClientLimits = {
  client: '',
  connectionsPerClient: Number.POSITIVE_INFINITY,
  tunnels: undefined,
  tunnelsPerClient: Number.POSITIVE_INFINITY,
  requestsPerSecond: undefined,
  bytesPerHour: undefined,
  lookups: undefined,
  tunnelTimes: { idleMs: Number.POSITIVE_INFINITY, lifetimeMs: Number.POSITIVE_INFINITY },
  countsRequests: false,
  own: new Set(),
}

/** The key of the configuration that sets a limit of a client, as messages and logs name it. */
export function keyOfLimit({ client, own }: Pick<ClientLimits, 'client' | 'own'>, key: string): string {
  return own.has(key) ? keyOfEntry(client, key) : `limits.${key}`
}

/** By the name of the entry: unlike its position in the file, the name stays the same. */
export function keyOfEntry(client: string, key: string): string {
  return `clients[${client}].limits.${key}`
}

/** Of the reasons for which a tunnel is closed, those that are limits, with their keys. */
const LIMIT_REASONS: Partial<Record<CloseReason, ClientLimitKey>> = {
  idle: 'tunnel_idle',
  lifetime: 'tunnel_lifetime',
  bytes: 'bytes_per_hour',
}

/** @returns the key of the limit that closed a tunnel; undefined where it was closed for anything else */
export function keyOfReason(reason: CloseReason, limits: ClientLimits): string | undefined {
  const key = LIMIT_REASONS[reason]
  return key && keyOfLimit(limits, key)
}
