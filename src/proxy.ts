/** The composition root: from a configuration to a running proxy. Nothing else knows all the parts. */
import { randomBytes } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import type { Logger } from 'pino'
import { AdminServer } from './admin/server.js'
import { BcryptThread } from './clients/bcrypt-thread.js'
import { FailedAttempts } from './clients/failed-attempts.js'
import { Clients } from './clients/identify.js'
import type { ConfigFiles } from './config/files.js'
import type { ListenAddress } from './config/listen-address.js'
import type { Loaded } from './config/load.js'
import type { Config } from './config/schema.js'
import { createHttpDate } from './http/date.js'
import { ownListeners } from './listener/own-listeners.js'
import { serveExchange } from './listener/route.js'
import { ProxyServer } from './listener/server.js'
import { AccessLog } from './observe/access-log.js'
import { logUpstream } from './observe/upstream-log.js'
import { createOrigins } from './origin/create-origins.js'
import { Policy } from './policy/decision.js'
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

/** The addresses that are listened on, with the ports that were really bound. */
interface Listeners {
  readonly proxy: readonly ListenAddress[]
  /** For clients that speak TLS to the proxy. */
  readonly tls: ListenAddress | undefined
  readonly admin: ListenAddress | undefined
}

export interface RunningProxy extends Listeners {
  /** Stops accepting, waits for what is open as long as `shutdown.drain` says, and closes everything. */
  drain(): Promise<void>
}

/** Milliseconds an open connection to an origin waits for its next request; most origins wait five seconds. */
const UPSTREAM_KEEP_ALIVE_MS = 4000

/** A configuration as it was loaded: what startProxy needs of it. */
export type LoadedConfig = Pick<Loaded, 'config' | 'hash' | 'files' | 'folder'>

/**
 * Starts a proxy.
 *
 * @throws the system's error when an address can not be bound, OpenSSL's when the files of `listen.tls` are not those
 *   that were checked; nothing is left open then
 */
export async function startProxy(
  { config, hash, files, folder }: LoadedConfig,
  environment: ProxyEnvironment,
): Promise<RunningProxy> {
  const now = environment.now ?? (() => performance.now())
  const wallClock = environment.wallClock ?? Date.now
  const date = createHttpDate(wallClock)
  const { limits } = config
  const configured = configuredListeners(config)
  let policy = createPolicy(config, configured)
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
  const sender = { maxHeaderBytes: limits.headerBytes, keepAliveMs: UPSTREAM_KEEP_ALIVE_MS }
  const fast = new UndiciSender({ ...sender, dialer })
  const exact = new NodeSender({ ...sender, dialer })
  const hop = {
    trace: config.trace.enabled,
    traceExclude: new Set(config.trace.exclude),
    extra: config.methods.extra,
  }
  const origins = createOrigins(config.origins, {
    dialer,
    sender,
    fast,
    exact,
    methods: hop,
    upstreamCa: files.upstreamCa,
    store: { folder, now: wallClock, date, randomId: () => randomBytes(16).toString('hex') },
    now,
    onChange: (upstream, error) => logUpstream(environment.logger, upstream, error),
  })
  const pumpLimits = { idleMs: limits.tunnelIdleMs, lifetimeMs: limits.tunnelLifetimeMs }
  const accessLog = new AccessLog({ logger: environment.logger, query: config.log.query, wallClock })
  let exchanges = 0

  const server: ProxyServer = new ProxyServer({
    limits,
    extraMethods: config.methods.extra,
    errorNote: config.errorNote,
    accessLog,
    clientName: address => clients.nameAt(address),
    configHash: () => hash,
    now,
    date,
    nextId: () => `${environment.startId}-${(++exchanges).toString(36)}`,
    serve: exchange => void serveExchange(exchange, routeOptions),
    handshakeFailed: (clientAddress, code) =>
      environment.logger.warn({ event: 'tls_client_error', client_address: clientAddress, error: code }),
  })
  const pumps = { add: server.addPump.bind(server) }
  const relayOptions = {
    upgrade: config.forward.upgrade,
    responseTimeoutMs: limits.responseTimeoutMs,
    pseudonym: config.via ?? `sluice-${environment.startId}`,
    date,
    now,
    pumpLimits,
    pumps,
  }
  const routeOptions = {
    clients: () => clients,
    policy: () => policy,
    configHash: () => hash,
    dialer,
    hop,
    forward: { ...relayOptions, fast, exact },
    origins: { routes: origins.routes, options: { ...relayOptions, dialer } },
    tunnel: {
      dialer,
      limits: pumpLimits,
      helloTimeoutMs: limits.headerTimeoutMs,
      buffers: new ReadBuffers(),
      pumps,
      now,
    },
    accessLog,
    date,
    now,
  }
  const admin = new AdminServer({ ready: () => !server.draining })

  const stop = async (deadlineMs: number): Promise<void> => {
    await server.drain(deadlineMs)
    fast.close()
    exact.close()
    await origins.close()
    await passwords.close()
    names.close()
    await admin.close()
  }
  try {
    const proxy: ListenAddress[] = []
    for (const address of config.listen.proxy) proxy.push(await server.listen(address))
    const tls = await listenTls(server, config, files)
    const { admin: adminAddress } = configured
    const bound = { proxy, tls, admin: adminAddress && (await admin.listen(adminAddress)) }
    // Again, with the ports that were really bound: they are another thing where the file says 0.
    policy = createPolicy(config, bound)
    let stopped: Promise<void> | undefined
    const drain = (): Promise<void> => {
      stopped ??= stop(config.shutdown.drainMs)
      return stopped
    }
    return { ...bound, drain }
  } catch (error) {
    await stop(0)
    throw error
  }
}

async function listenTls(
  server: ProxyServer,
  config: Config,
  files: ConfigFiles,
): Promise<ListenAddress | undefined> {
  const { tls } = config.listen
  if (tls === undefined) return undefined
  if (files.tls === undefined) throw new TypeError('listen.tls, and nothing of its files')
  return await server.listenTls(tls.address, files.tls)
}

function configuredListeners({ listen }: Config): Listeners {
  return {
    proxy: listen.proxy,
    tls: listen.tls?.address,
    admin: listen.admin === false ? undefined : listen.admin,
  }
}

/**
 * The policy that a configuration means.
 *
 * @param listeners the proxy's own; by default those of the configuration, with the ports that stand there
 */
export function createPolicy(
  config: Config,
  { proxy, tls, admin }: Listeners = configuredListeners(config),
): Policy {
  const bound = [
    ...[...proxy, ...(tls === undefined ? [] : [tls])].map(address => ({ address, role: 'proxy' as const })),
    ...(admin === undefined ? [] : [{ address: admin, role: 'admin' as const }]),
  ]
  return new Policy(
    {
      mode: config.mode,
      connectPorts: config.connect.ports,
      forwardPorts: config.forward.ports,
      rules: config.rules,
      deny: config.deny,
      sni: config.connect.sni,
    },
    { ownListeners: ownListeners(bound, networkInterfaces()) },
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
