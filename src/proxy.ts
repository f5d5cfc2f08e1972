/** The composition root: from a configuration to a running proxy. Nothing else knows all the parts. */
import { randomBytes } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import type { Logger } from 'pino'
import { AdminServer } from './admin/server.js'
import { BcryptThread } from './clients/bcrypt-thread.js'
import { FailedAttempts } from './clients/failed-attempts.js'
import { Clients } from './clients/identify.js'
import type { ListenAddress } from './config/listen-address.js'
import type { Loaded } from './config/load.js'
import type { Config } from './config/schema.js'
import { createHttpDate } from './http/date.js'
import { ownListeners } from './listener/own-listeners.js'
import { serveExchange } from './listener/route.js'
import { ProxyServer } from './listener/server.js'
import { AccessLog } from './observe/access-log.js'
import { Policy } from './policy/decision.js'
import type { OwnListener } from './policy/permit.js'
import { ReadBuffers } from './relay/read-buffer.js'
import { type Connector, Dialer } from './upstream/dial.js'
import { DnsCache } from './upstream/dns-cache.js'
import { DnsServers } from './upstream/dns-servers.js'
import { type AddressLookup, type NameSource, systemLookup, untimed } from './upstream/lookup.js'
import { NodeSender } from './upstream/node-sender.js'
import { createResolver, type Resolver } from './upstream/resolve.js'
import { UndiciSender } from './upstream/undici-sender.js'

/** What the outside world is made of; tests put their own in. */
export interface ProxyEnvironment {
  readonly logger: Logger
  /** A random text, made once a start; names this proxy in Via and begins every exchange's id. */
  readonly startId: string
  /** In place of the system's resolver and of `dns.servers`. */
  readonly lookup?: AddressLookup
  readonly connector?: Connector
  /** Milliseconds, monotonic. */
  readonly now?: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
}

export interface RunningProxy {
  readonly proxy: readonly ListenAddress[]
  readonly admin: ListenAddress | undefined
  /** Stops accepting, waits for what is open as long as `shutdown.drain` says, and closes everything. */
  drain(): Promise<void>
}

/** Milliseconds an open connection to an origin waits for its next request; most origins wait five seconds. */
const UPSTREAM_KEEP_ALIVE_MS = 4000

/** A configuration as it was loaded: what startProxy needs of it. */
export type LoadedConfig = Pick<Loaded, 'config' | 'hash' | 'files'>

/**
 * Starts a proxy.
 *
 * @throws the system's error when an address can not be bound; nothing is left open then
 */
export async function startProxy(
  { config, hash, files }: LoadedConfig,
  environment: ProxyEnvironment,
): Promise<RunningProxy> {
  const now = environment.now ?? (() => performance.now())
  const wallClock = environment.wallClock ?? Date.now
  const date = createHttpDate(wallClock)
  const { limits } = config
  let policy = createPolicy(config)
  const passwords = new BcryptThread()
  const clients = new Clients(config.clients, {
    htpasswd: files.htpasswd,
    passwords,
    attempts: new FailedAttempts(now),
    key: randomBytes(32),
  })
  const names = createNames(config, now, environment.lookup)
  const dialer = new Dialer({
    resolver: names.resolver,
    policy: () => policy,
    connectTimeoutMs: limits.connectTimeoutMs,
    now,
    ...(environment.connector === undefined ? {} : { connector: environment.connector }),
  })
  const senderOptions = { dialer, maxHeaderBytes: limits.headerBytes, keepAliveMs: UPSTREAM_KEEP_ALIVE_MS }
  const fast = new UndiciSender(senderOptions)
  const exact = new NodeSender(senderOptions)
  const pumpLimits = { idleMs: limits.tunnelIdleMs, lifetimeMs: limits.tunnelLifetimeMs }
  const accessLog = new AccessLog({ logger: environment.logger, query: config.log.query, wallClock })
  let exchanges = 0

  const server: ProxyServer = new ProxyServer({
    limits,
    errorNote: config.errorNote,
    accessLog,
    clientName: address => clients.nameAt(address),
    configHash: () => hash,
    now,
    date,
    nextId: () => `${environment.startId}-${(++exchanges).toString(36)}`,
    serve: exchange => void serveExchange(exchange, routeOptions),
  })
  const pumps = { add: server.addPump.bind(server) }
  const routeOptions = {
    clients: () => clients,
    policy: () => policy,
    configHash: () => hash,
    dialer,
    forward: {
      fast,
      exact,
      upgrade: config.forward.upgrade,
      responseTimeoutMs: limits.responseTimeoutMs,
      pseudonym: config.via ?? `sluice-${environment.startId}`,
      date,
      now,
      pumpLimits,
      pumps,
    },
    tunnel: { dialer, limits: pumpLimits, buffers: new ReadBuffers(), pumps, now },
    accessLog,
    date,
    now,
  }
  const admin = new AdminServer({ ready: () => !server.draining })

  const stop = async (deadlineMs: number): Promise<void> => {
    await server.drain(deadlineMs)
    fast.close()
    exact.close()
    await passwords.close()
    names.close()
    await admin.close()
  }
  try {
    const bound: ListenAddress[] = []
    for (const address of config.listen.proxy) bound.push(await server.listen(address))
    const boundAdmin = config.listen.admin === false ? undefined : await admin.listen(config.listen.admin)
    // Again, with the ports that were really bound: they are another thing where the file says 0.
    policy = createPolicy(config, ownListeners(listenersOf(bound, boundAdmin ?? false), networkInterfaces()))
    let stopped: Promise<void> | undefined
    const drain = (): Promise<void> => {
      stopped ??= stop(config.shutdown.drainMs)
      return stopped
    }
    return { proxy: bound, admin: boundAdmin, drain }
  } catch (error) {
    await stop(0)
    throw error
  }
}

function listenersOf(
  proxy: readonly ListenAddress[],
  admin: ListenAddress | false,
): { readonly address: ListenAddress; readonly role: OwnListener['role'] }[] {
  const listeners = proxy.map(address => ({ address, role: 'proxy' as const }))
  return admin === false ? listeners : [...listeners, { address: admin, role: 'admin' as const }]
}

/**
 * The policy that a configuration means.
 *
 * @param own the proxy's listeners; by default those of the configuration, with the ports that stand there
 */
export function createPolicy(
  config: Config,
  own: readonly OwnListener[] = ownListeners(
    listenersOf(config.listen.proxy, config.listen.admin),
    networkInterfaces(),
  ),
): Policy {
  return new Policy(
    {
      mode: config.mode,
      connectPorts: config.connect.ports,
      forwardPorts: config.forward.ports,
      rules: config.rules,
      deny: config.deny,
      sni: config.connect.sni,
    },
    { ownListeners: own },
  )
}

/** What turns names into addresses in a proxy with this configuration. */
export function createNames(
  config: Config,
  now: () => number,
  lookup?: AddressLookup,
): { readonly resolver: Resolver; close(): void } {
  const names = nameSource(config, lookup)
  const cache = new DnsCache({ ...config.dns, lookup: names.lookup, now })
  return { resolver: createResolver(cache, config.dns.timeoutMs), close: () => names.close() }
}

function nameSource({ dns }: Config, lookup: AddressLookup | undefined): NameSource {
  if (lookup === undefined && dns.servers.length > 0) return new DnsServers(dns)
  return untimed(lookup ?? systemLookup)
}
