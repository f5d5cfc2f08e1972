/**
 * Everything that is created from one configuration: policy, clients, names, connections to upstreams and origins. A
 * reload replaces all of it at once. An exchange belongs to the runtime in which it began until it ends, so that no
 * request is judged partly by one configuration and partly by another.
 */
import { randomBytes } from 'node:crypto'
import { type AdminRules, adminRules } from '../admin/access.js'
import { type ClientsOptions, Clients } from '../clients/identify.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import type { Names } from '../dns/resolve.js'
import { Via } from '../http/via.js'
import type { ClientLimits } from '../limits/client-limits.js'
import type { ServerSettings } from '../listener/server.js'
import { AccessLog } from '../observe/access-log.js'
import type { OperatedCache } from '../observe/cache-report.js'
import { listUpstreams, type UpstreamHealth } from '../observe/upstream-health.js'
import { createOrigins, type Origins, type OriginsOptions } from '../origin/create-origins.js'
import { CacheTerms } from '../pipeline/cache-terms.js'
import { createPolicy, type Listeners } from '../pipeline/create-policy.js'
import { ObserverList } from '../pipeline/exchange-observer.js'
import { recheck } from '../pipeline/recheck.js'
import { createServe, type HandlerOptions, type HopOptions, type Serving } from '../pipeline/serve.js'
import { Policy, type PolicyInForce } from '../policy/decision.js'
import { Authorities } from '../tls/authorities.js'
import { certificateExpiries, type CertificateExpiry } from '../tls/certificate-expiry.js'
import type { OpenTunnel, TunnelRules } from '../tunnel/registry.js'
import type { OpenCache } from '../upstream/cache/open-cache.js'
import { Dialer } from '../upstream/dial.js'
import { Http1Sender } from '../upstream/http1-sender.js'
import { createParents, type Parents } from '../upstream/parents.js'
import { logUpstream } from '../upstream/availability.js'
import type { CurrentRuntime, Services } from './services.js'

/** A loaded configuration, from which a runtime is created. */
export type LoadedConfig = Pick<Loaded, 'config' | 'hash' | 'fromFile' | 'files' | 'folder'>

/** Milliseconds for which an idle connection to an origin is kept open; most origins close it after five seconds. */
const UPSTREAM_KEEP_ALIVE_MS = 4000

export class Runtime implements TunnelRules, CurrentRuntime {
  readonly hash: string
  readonly settings: ServerSettings
  readonly dialer: Dialer
  readonly #services: Services
  readonly #clients: Clients
  readonly #names: Names
  readonly #origins: Origins
  readonly #parents: Parents | undefined
  readonly #sender: Http1Sender
  /** Undefined without a cache. */
  readonly #cache: OpenCache | undefined
  readonly #observers: ObserverList
  readonly #serving: Serving
  /** Parsed when they are first needed. */
  #certificates: readonly CertificateExpiry[] | undefined
  /** The large parts; released once only tunnels are left of its exchanges. */
  #loaded: LoadedConfig | undefined
  /** The number of its exchanges that have become tunnels. */
  #tunnels = 0
  #isRetired = false
  #closed: Promise<void> | undefined
  #onClosed: () => void = () => {}

  /**
   * @param listeners the proxy's own, to which no request may lead back
   * @param before the previous runtime, from which successful password checks are adopted
   * @throws OpenSSL's error when the files of the configuration are not usable, although they were checked
   */
  static async open(
    loaded: LoadedConfig,
    services: Services,
    listeners: Listeners,
    before?: Runtime,
  ): Promise<Runtime> {
    const cache = await services.caches.use(loaded)
    try {
      return new Runtime(loaded, services, listeners, cache, before)
    } catch (error) {
      if (cache !== undefined) await services.caches.release(cache)
      throw error
    }
  }

  private constructor(
    loaded: LoadedConfig,
    services: Services,
    listeners: Listeners,
    cache: OpenCache | undefined,
    before: Runtime | undefined,
  ) {
    const { config, hash } = loaded
    this.hash = hash
    this.#services = services
    this.#loaded = loaded
    this.#serving = { policy: createPolicy(loaded, listeners), exchanges: 0, ended: undefined }
    this.#clients = createClients(loaded, services, services.attempts)
    if (before !== undefined) this.#clients.adopt(before.#clients)
    this.#names = services.lookups.names(config, services)
    this.dialer = createDialer(config, services, this.#names, this.#serving)
    const { dialer } = this
    const senderOptions = { headerBytes: config.limits.headerBytes, keepAliveMs: UPSTREAM_KEEP_ALIVE_MS }
    const sender = new Http1Sender({ ...senderOptions, scheme: 'http', dialer })
    this.#cache = cache
    const hop = hopOf(config)
    this.#sender = sender
    this.#parents = createParents(loaded, services.logger, {
      dialer,
      sender: senderOptions,
      cache,
      now: services.now,
    })
    this.#origins = openOrigins(loaded, services, { dialer, senderOptions, cache, methods: hop })
    this.#observers = observersOf(config, services)
    const serve = createServe({
      clients: this.#clients,
      serving: this.#serving,
      configHash: hash,
      hasConfigFile: loaded.fromFile,
      dialer,
      parents: this.#parents,
      hop,
      routes: this.#origins.routes,
      handling: {
        ...handlingOf(config, services),
        dialer,
        sender: cache?.around(sender) ?? sender,
        cache: config.cache && new CacheTerms(config.cache),
        tunnels: services.tunnels.under(this),
      },
      shares: services.shares,
      observers: this.#observers,
      date: services.date,
      now: services.now,
    })
    this.settings = settingsOf(loaded, this.#clients, this.#observers, serve)
  }

  get config(): Config {
    return this.#inForce.config
  }

  get adminRules(): AdminRules {
    return adminRules(this.#inForce)
  }

  /** Replaces the proxy's own listeners in the policy: port 0 of a configuration has become another one. */
  listening(listeners: Listeners): void {
    this.#serving.policy = createPolicy(this.#inForce, listeners)
  }

  get cache(): OperatedCache | undefined {
    const { cache } = this.config
    const open = this.#cache
    if (cache === undefined || open === undefined) return undefined
    return {
      kind: cache.store,
      sizeBytes: cache.store === 'redis' ? undefined : cache.sizeBytes,
      stats: () => open.store.stats(),
      purge: what => open.purge(what),
    }
  }

  upstreamHealth(): readonly UpstreamHealth[] {
    const { now, wallClock } = this.#services
    const offset = wallClock() - now()
    return listUpstreams(this.#parents?.health ?? [], this.#origins.health(), ms => ms + offset)
  }

  certificates(): readonly CertificateExpiry[] {
    this.#certificates ??= certificateExpiries(this.config, this.#inForce.files)
    return this.#certificates
  }

  /**
   * Returns a function that gives the limits of a tunnel of another runtime in this one; undefined if it would not be allowed.
   * Certificates and credentials are checked again; wrong credentials are not counted, as nobody has sent them now.
   */
  judge(): (tunnel: OpenTunnel) => Promise<ClientLimits | undefined> {
    const loaded = this.#inForce
    const { policy } = this.#serving
    const clients = createClients(loaded, this.#services, { waitSeconds: () => 0, begin: () => () => {} })
    clients.adopt(this.#clients)
    const authorities = new Authorities(loaded.files.tls ?? {}, this.#services.wallClock())
    const { routes } = this.#origins
    const parents = this.#parents
    return async tunnel => (await recheck(tunnel, { clients, authorities, policy, routes, parents }))?.limits
  }

  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void {
    this.#tunnels += 1
    this.#observers.tunnelOpened(connectMs, dnsMs)
    if (this.#isRetired) this.#endIfUnused()
  }

  tunnelClosed(): void {
    this.#tunnels -= 1
  }

  /** Closes idle connections at once, and the runtime after its last exchange. */
  retire(): Promise<void> {
    this.#isRetired = true
    this.#serving.ended = () => this.#endIfUnused()
    this.#sender.retire()
    this.#parents?.retire()
    this.#origins.retire()
    this.#endIfUnused()
    if (this.#serving.exchanges === 0) return this.close()
    return new Promise(resolve => {
      this.#onClosed = resolve
    })
  }

  /** Closes everything, even if it is still in use. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  get #inForce(): LoadedConfig {
    if (this.#loaded === undefined) throw new TypeError('the configuration has been released')
    return this.#loaded
  }

  /** Releases the rules, which can be large, once only tunnels are left: a tunnel may stay open for days. */
  #endIfUnused(): void {
    const { exchanges } = this.#serving
    if (exchanges <= this.#tunnels && this.#loaded !== undefined) {
      this.#loaded = undefined
      this.#serving.policy = emptyPolicy()
    }
    if (exchanges === 0) void this.close()
  }

  async #close(): Promise<void> {
    this.#sender.close()
    this.#parents?.close()
    this.#names.close()
    await this.#origins.close()
    if (this.#cache !== undefined) await this.#services.caches.release(this.#cache)
    this.#onClosed()
  }
}

/** Replaces a released policy; it would deny everything, but is not asked any more. */
function emptyPolicy(): Policy {
  const deny = { hosts: [], addresses: [] }
  return new Policy({ connectPorts: [], forwardPorts: [], sni: 'none', rules: new Map(), deny })
}

function createClients(
  { config, files }: LoadedConfig,
  { passwords, credentialKey: key }: Services,
  attempts: ClientsOptions['attempts'],
): Clients {
  const { queue } = passwords
  const { clients, limits } = config
  return new Clients(clients, { htpasswd: files.htpasswd, passwords, queue, attempts, key, limits })
}

function createDialer(
  { limits }: Config,
  { connector, descriptors, now }: Services,
  { resolver, configured }: Names,
  inForce: PolicyInForce,
): Dialer {
  const { connectTimeoutMs } = limits
  const common = { resolver, configured, inForce, connectTimeoutMs, descriptors, now }
  return new Dialer(connector === undefined ? common : { ...common, connector })
}

function hopOf({ trace, methods }: Config): HopOptions {
  return { trace: trace.enabled, traceExclude: new Set(trace.exclude), extra: methods.extra }
}

function openOrigins(
  { config, files, folder }: LoadedConfig,
  { now, wallClock, date, descriptors, logger }: Services,
  common: Pick<OriginsOptions, 'dialer' | 'senderOptions' | 'cache' | 'methods'>,
): Origins {
  return createOrigins(config.origins, {
    ...common,
    upstreamCa: files.upstreamCa,
    store: {
      folder,
      targetBytes: config.limits.targetBytes,
      now: wallClock,
      date,
      randomId: () => randomBytes(16).toString('hex'),
      descriptors,
      unreadable: (path, reason) => logger.error({ event: 'store_unreadable', path, error: reason }),
      evicted: (directory, objects, bytes) =>
        logger.debug({ event: 'store_evicted', directory, objects, bytes }),
    },
    now,
    onChange: (upstream, error) => logUpstream(logger, upstream, error),
  })
}

/** The options of the handlers that depend on the configuration and the services. */
function handlingOf(
  { limits, forward, via }: Config,
  { date, now, buffers, startId }: Services,
): Omit<HandlerOptions, 'dialer' | 'sender' | 'cache' | 'tunnels'> {
  return {
    upgrade: forward.upgrade,
    requestIdleMs: limits.bodyIdleMs,
    responseTimeoutMs: limits.responseTimeoutMs,
    headerTimeoutMs: limits.headerTimeoutMs,
    headerBytes: limits.headerBytes,
    via: new Via(via ?? `sluice-${startId}`),
    buffers,
    date,
    now,
  }
}

/** The access log is omitted if its level would suppress everything, even refusals. */
function observersOf({ log }: Config, { logger, wallClock, observers }: Services): ObserverList {
  if (!logger.isLevelEnabled('warn')) return new ObserverList(observers)
  return new ObserverList([new AccessLog({ logger, query: log.query, wallClock }), ...observers])
}

function settingsOf(
  { config, hash }: LoadedConfig,
  clients: Clients,
  { all: observers }: ObserverList,
  serve: ServerSettings['serve'],
): ServerSettings {
  return {
    limits: config.limits,
    extraMethods: config.methods.extra,
    errorNote: config.errorNote,
    observers,
    serve,
    clientName: address => clients.clientAt(address)?.name,
    sourceOf: address => clients.sourceOf(address),
    limitsAt: address => clients.clientAt(address)?.limits,
    configHash: hash,
    balancers: config.listen.proxyProtocol?.from ?? [],
  }
}
