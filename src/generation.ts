/**
 * What one configuration comes to: policy, clients, names, connections to upstreams and origins, all of it replaced at
 * once when another configuration takes its place. An exchange belongs to the generation that it began in to its end,
 * so that no request is judged half by the one and half by the other.
 */
import { randomBytes } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import type { Logger } from 'pino'
import type { BcryptThread } from './clients/bcrypt-thread.js'
import type { FailedAttempts } from './clients/failed-attempts.js'
import { Clients } from './clients/identify.js'
import { isTcp, type ListenAddress, type TcpAddress } from './config/listen-address.js'
import type { Loaded } from './config/load.js'
import type { Config } from './config/schema.js'
import type { ConnectionExchange } from './listener/connection-exchange.js'
import type { Shares } from './limits/shares.js'
import { ownListeners } from './listener/own-listeners.js'
import { isStillAllowed, type OpenTunnel } from './listener/recheck.js'
import { type RouteOptions, serveExchange } from './listener/route.js'
import type { ServerSettings } from './listener/server.js'
import { AccessLog } from './observe/access-log.js'
import { type ExchangeObserver, ObserverPair } from './observe/exchange-observer.js'
import type { ExchangeSpans } from './observe/exchange-spans.js'
import { logUpstream } from './observe/upstream-log.js'
import type { UpstreamHealth } from './observe/upstream-metrics.js'
import { createOrigins, type Origins } from './origin/create-origins.js'
import { Policy } from './policy/decision.js'
import type { PumpRegistry } from './relay/pump.js'
import type { ReadBuffers } from './relay/read-buffer.js'
import { type Connector, Dialer } from './upstream/dial.js'
import { DnsCache } from './upstream/dns-cache.js'
import { DnsServers } from './upstream/dns-servers.js'
import { type AddressLookup, type NameSource, systemLookup, untimed } from './upstream/lookup.js'
import { NodeSender } from './upstream/node-sender.js'
import { createParents } from './upstream/parents.js'
import { createResolver, type Resolver } from './upstream/resolve.js'
import { UndiciSender } from './upstream/undici-sender.js'

/** A configuration as it was loaded: what a generation is made of. */
export type LoadedConfig = Pick<Loaded, 'config' | 'hash' | 'files' | 'folder'>

/** The addresses that are listened on, with the ports that were really bound. */
export interface Listeners {
  readonly proxy: readonly ListenAddress[]
  /** For clients that speak TLS to the proxy. */
  readonly tls: TcpAddress | undefined
  readonly admin: ListenAddress | undefined
}

/** What outlasts a generation. */
export interface Surroundings {
  readonly logger: Logger
  readonly startId: string
  readonly lookup: AddressLookup | undefined
  readonly connector: Connector | undefined
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  readonly date: () => string
  readonly passwords: BcryptThread
  readonly attempts: FailedAttempts
  /** Random bytes, made once a start. */
  readonly credentialKey: Uint8Array
  readonly buffers: ReadBuffers
  readonly pumps: PumpRegistry
  /** Of every exchange, beside the log. */
  readonly observer: ExchangeObserver
  readonly shares: Shares
  /** Undefined where nothing is traced. */
  readonly spans: ExchangeSpans | undefined
}

/** Milliseconds an open connection to an origin waits for its next request; most origins wait five seconds. */
const UPSTREAM_KEEP_ALIVE_MS = 4000

export class Generation {
  readonly config: Config
  readonly hash: string
  readonly settings: ServerSettings
  readonly dialer: Dialer
  readonly #surroundings: Surroundings
  readonly #loaded: LoadedConfig
  readonly #routing: RouteOptions
  readonly #closing: readonly { close(): void }[]
  readonly #origins: Origins
  #policy: Policy
  #open = 0
  #retired = false
  #closed: Promise<void> | undefined
  #onClosed: () => void = () => {}

  /**
   * @param listeners the proxy's own: no request may lead back to them
   * @throws OpenSSL's error when the files of the configuration are not those that were checked
   */
  constructor(loaded: LoadedConfig, surroundings: Surroundings, listeners: Listeners) {
    const { config, hash, files, folder } = loaded
    const { limits } = config
    const { now, wallClock, date } = surroundings
    this.config = config
    this.hash = hash
    this.#loaded = loaded
    this.#surroundings = surroundings
    this.#policy = createPolicy(config, listeners)
    const policy = (): Policy => this.#policy
    const clients = this.#clients(surroundings.attempts)
    const names = createNames(config, now, surroundings.lookup)
    const dialer = new Dialer({
      resolver: names.resolver,
      policy,
      connectTimeoutMs: limits.connectTimeoutMs,
      now,
      ...(surroundings.connector === undefined ? {} : { connector: surroundings.connector }),
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
      onChange: (upstream, error) => logUpstream(surroundings.logger, upstream, error),
    })
    const parents = createParents({ config, files }, surroundings.logger, { dialer, sender, now })
    const accessLog = new AccessLog({ logger: surroundings.logger, query: config.log.query, wallClock })
    const { spans } = surroundings
    const told = new ObserverPair(accessLog, surroundings.observer)
    const observer = spans === undefined ? told : new ObserverPair(told, spans)
    const pumpLimits = { idleMs: limits.tunnelIdleMs, lifetimeMs: limits.tunnelLifetimeMs }
    const { pumps, buffers } = surroundings
    const relay = {
      upgrade: config.forward.upgrade,
      responseTimeoutMs: limits.responseTimeoutMs,
      pseudonym: config.via ?? `sluice-${surroundings.startId}`,
      date,
      now,
      pumpLimits,
      pumps,
    }
    this.#closing = [fast, exact, ...(parents === undefined ? [] : [parents]), names]
    this.dialer = dialer
    this.#origins = origins
    this.#routing = {
      clients: () => clients,
      policy,
      configHash: () => hash,
      dialer,
      hop,
      parents,
      forward: { ...relay, fast, exact, dialer },
      origins: { routes: origins.routes, options: { ...relay, dialer } },
      tunnel: {
        ...relay,
        dialer,
        limits: pumpLimits,
        helloTimeoutMs: limits.headerTimeoutMs,
        maxHeaderBytes: limits.headerBytes,
        buffers,
      },
      shares: surroundings.shares,
      observer,
      spans,
      date,
      now,
    }
    this.settings = {
      limits,
      extraMethods: config.methods.extra,
      errorNote: config.errorNote,
      observer,
      clientName: address => clients.nameAt(address),
      sourceOf: address => clients.sourceOf(address),
      configHash: hash,
      balancers: config.listen.proxyProtocol?.from ?? [],
    }
  }

  /** Judges from now on with these as the proxy's own: port 0 of a configuration has become another one. */
  listening(listeners: Listeners): void {
    this.#policy = createPolicy(this.config, listeners)
  }

  serve(exchange: ConnectionExchange): void {
    this.#open += 1
    void serveExchange(exchange, this.#routing).then(this.#ended)
  }

  upstreamHealth(): readonly UpstreamHealth[] {
    return this.#origins.health()
  }

  /**
   * Whether a tunnel of another generation could be had in this one, too. Credentials are checked again, and are not
   * counted when they are wrong: nobody has sent them now.
   */
  judge(): (tunnel: OpenTunnel) => Promise<boolean> {
    const clients = this.#clients({ waitSeconds: () => 0, begin: () => () => {} })
    const { parents, origins } = this.#routing
    const { routes } = origins
    return tunnel => isStillAllowed(tunnel, { clients, policy: this.#policy, routes, parents })
  }

  /** Closes it when its last exchange is over. */
  retire(): Promise<void> {
    this.#retired = true
    if (this.#open === 0) return this.close()
    return new Promise(resolve => {
      this.#onClosed = resolve
    })
  }

  /** Closes what it has open, whoever may still use it. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  readonly #ended = (): void => {
    this.#open -= 1
    if (this.#retired && this.#open === 0) void this.close()
  }

  async #close(): Promise<void> {
    for (const open of this.#closing) open.close()
    await this.#origins.close()
    this.#onClosed()
  }

  #clients(attempts: Pick<FailedAttempts, 'waitSeconds' | 'begin'>): Clients {
    const { passwords, credentialKey } = this.#surroundings
    const { htpasswd } = this.#loaded.files
    return new Clients(this.config.clients, { htpasswd, passwords, attempts, key: credentialKey })
  }
}

export function configuredListeners({ listen }: Config): Listeners {
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
    ...[...proxy, tls].map(address => ({ address, role: 'proxy' as const })),
    { address: admin, role: 'admin' as const },
  ].flatMap(({ address, role }) => (address !== undefined && isTcp(address) ? [{ address, role }] : []))
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
