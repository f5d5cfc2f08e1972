/**
 * What one configuration comes to: policy, clients, names, connections to upstreams and origins, all of it replaced at
 * once when another configuration takes its place. An exchange belongs to the generation that it began in to its end,
 * so that no request is judged half by the one and half by the other.
 */
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { Authorities } from '../tls/authorities.js'
import type { BcryptThread } from '../clients/bcrypt-thread.js'
import type { FailedAttempts } from '../clients/failed-attempts.js'
import { Clients } from '../clients/identify.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import type { AdmittedExchange, ReceivedExchange } from '../pipeline/admitted-exchange.js'
import type { Descriptors } from '../limits/descriptors.js'
import type { Shares } from '../limits/shares.js'
import { createPolicy, type Listeners } from '../pipeline/create-policy.js'
import { isStillAllowed } from '../pipeline/recheck.js'
import { type Pipeline, serve } from '../pipeline/serve.js'
import type { ServerSettings } from '../listener/server.js'
import { AccessLog } from '../observe/access-log.js'
import { type ExchangeObserver, ObserverList } from '../pipeline/exchange-observer.js'
import { logUpstream } from '../upstream/availability.js'
import { createOrigins, type Origins, type UpstreamHealth } from '../origin/create-origins.js'
import type { Policy } from '../policy/decision.js'
import type { OpenTunnels, PumpUpstream, RunningPump } from '../tunnel/pump.js'
import type { ReadBuffers } from '../tunnel/read-buffer.js'
import type { OpenTunnel, TunnelRegistry, TunnelRules } from '../tunnel/registry.js'
import type { Lookups } from '../dns/resolve.js'
import { type Connector, Dialer } from '../upstream/dial.js'
import { Http1Sender } from '../upstream/http1-sender.js'
import { createParents } from '../upstream/parents.js'
import type { Sender } from '../upstream/sender.js'

/** A configuration as it was loaded: what a generation is made of. */
export type LoadedConfig = Pick<Loaded, 'config' | 'hash' | 'fromFile' | 'files' | 'folder'>

/** What outlasts a generation. */
export interface Surroundings {
  readonly logger: Logger
  readonly startId: string
  readonly lookups: Lookups
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
  readonly tunnels: Pick<TunnelRegistry, 'open' | 'countUnder'>
  /** Of every exchange, behind the log. */
  readonly observers: readonly ExchangeObserver[]
  readonly shares: Shares
  readonly descriptors: Descriptors
}

/** Milliseconds an open connection to an origin waits for its next request; most origins wait five seconds. */
const UPSTREAM_KEEP_ALIVE_MS = 4000

export class Generation implements TunnelRules {
  readonly hash: string
  readonly settings: ServerSettings
  readonly dialer: Dialer
  readonly #surroundings: Surroundings
  readonly #clients: Clients
  readonly #pipeline: Pipeline
  readonly #names: { close(): void }
  readonly #senders: readonly Pick<Sender, 'retire' | 'close'>[]
  readonly #origins: Origins
  /** What is large of it; let go of once nothing but tunnels is left that began in it. */
  #rules: { readonly loaded: LoadedConfig; policy: Policy } | undefined
  #open = 0
  #retired = false
  #closed: Promise<void> | undefined
  #onClosed: () => void = () => {}

  /**
   * @param listeners the proxy's own: no request may lead back to them
   * @param before the one whose place it takes; passwords that are still right are not asked for again
   * @throws OpenSSL's error when the files of the configuration are not those that were checked
   */
  constructor(loaded: LoadedConfig, surroundings: Surroundings, listeners: Listeners, before?: Generation) {
    const { config, hash, files, folder } = loaded
    const { limits } = config
    const { now, wallClock, date } = surroundings
    this.hash = hash
    this.#rules = { loaded, policy: createPolicy(config, listeners) }
    this.#surroundings = surroundings
    const policy = (): Policy => this.#current.policy
    const clients = this.#createClients(surroundings.attempts)
    if (before !== undefined) clients.adopt(before.#clients)
    this.#clients = clients
    const names = surroundings.lookups.names(config, { now, descriptors: surroundings.descriptors })
    const dialer = new Dialer({
      resolver: names.resolver,
      configured: names.configured,
      policy,
      connectTimeoutMs: limits.connectTimeoutMs,
      descriptors: surroundings.descriptors,
      now,
      ...(surroundings.connector === undefined ? {} : { connector: surroundings.connector }),
    })
    const senderOptions = { maxHeaderBytes: limits.headerBytes, keepAliveMs: UPSTREAM_KEEP_ALIVE_MS }
    const sender = new Http1Sender({ ...senderOptions, scheme: 'http', dialer })
    const hop = {
      trace: config.trace.enabled,
      traceExclude: new Set(config.trace.exclude),
      extra: config.methods.extra,
    }
    const origins = createOrigins(config.origins, {
      dialer,
      senderOptions,
      sender,
      methods: hop,
      upstreamCa: files.upstreamCa,
      store: {
        folder,
        targetBytes: limits.targetBytes,
        now: wallClock,
        date,
        randomId: () => randomBytes(16).toString('hex'),
        descriptors: surroundings.descriptors,
        unreadable: (path, reason) =>
          surroundings.logger.error({ event: 'store_unreadable', path, error: reason }),
      },
      now,
      onChange: (upstream, error) => logUpstream(surroundings.logger, upstream, error),
    })
    const parents = createParents({ config, files }, surroundings.logger, {
      dialer,
      sender: senderOptions,
      now,
    })
    const accessLog = new AccessLog({ logger: surroundings.logger, query: config.log.query, wallClock })
    const observer = new ObserverList([accessLog, ...surroundings.observers])
    const pumpLimits = { idleMs: limits.tunnelIdleMs, lifetimeMs: limits.tunnelLifetimeMs }
    const { buffers } = surroundings
    const tunnels: OpenTunnels = { open: (...opened) => this.#openTunnel(...opened) }
    const relay = {
      upgrade: config.forward.upgrade,
      requestIdleMs: limits.bodyIdleMs,
      responseTimeoutMs: limits.responseTimeoutMs,
      pseudonym: config.via ?? `sluice-${surroundings.startId}`,
      date,
      now,
      pumpLimits,
      tunnels,
    }
    this.#names = names
    this.#senders = [sender, ...(parents === undefined ? [] : [parents])]
    this.dialer = dialer
    this.#origins = origins
    this.#pipeline = {
      clients,
      policy,
      configHash: hash,
      hasConfigFile: loaded.fromFile,
      dialer,
      hop,
      parents,
      forward: { ...relay, sender, dialer },
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

  get config(): Config {
    return this.#current.loaded.config
  }

  /** Judges from now on with these as the proxy's own: port 0 of a configuration has become another one. */
  listening(listeners: Listeners): void {
    this.#current.policy = createPolicy(this.config, listeners)
  }

  serve(exchange: ReceivedExchange): void {
    this.#open += 1
    void serve(exchange, this.#pipeline).then(this.#ended)
  }

  upstreamHealth(): readonly UpstreamHealth[] {
    return this.#origins.health()
  }

  /**
   * Whether a tunnel of another generation could be had in this one, too. Certificates and credentials are checked
   * again; the latter are not counted when they are wrong: nobody has sent them now.
   */
  judge(): (tunnel: OpenTunnel) => Promise<boolean> {
    const clients = this.#createClients({ waitSeconds: () => 0, begin: () => () => {} })
    clients.adopt(this.#clients)
    const { policy, loaded } = this.#current
    const authorities = new Authorities(loaded.files.tls ?? {}, this.#surroundings.wallClock())
    const { parents, origins } = this.#pipeline
    const { routes } = origins
    return tunnel => isStillAllowed(tunnel, { clients, authorities, policy, routes, parents })
  }

  /** Closes it when its last exchange is over, and what of it is idle at once. */
  retire(): Promise<void> {
    this.#retired = true
    for (const sender of [...this.#senders, this.#origins]) sender.retire()
    this.#letGo()
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

  get #current(): { readonly loaded: LoadedConfig; policy: Policy } {
    if (this.#rules === undefined) throw new TypeError('asked of a configuration that is gone')
    return this.#rules
  }

  #openTunnel(pump: RunningPump, admitted: AdmittedExchange, upstream: PumpUpstream): void {
    this.#pipeline.observer.tunnelOpened(upstream.connectMs, admitted.dnsMs)
    this.#surroundings.tunnels.open(pump, admitted, upstream, this)
    if (this.#retired) this.#letGo()
  }

  readonly #ended = (): void => {
    this.#open -= 1
    if (!this.#retired) return
    this.#letGo()
    if (this.#open === 0) void this.close()
  }

  /** A tunnel may live for a day, and its rules can be large. */
  #letGo(): void {
    if (this.#open <= this.#surroundings.tunnels.countUnder(this)) this.#rules = undefined
  }

  async #close(): Promise<void> {
    for (const open of [...this.#senders, this.#names]) open.close()
    await this.#origins.close()
    this.#onClosed()
  }

  #createClients(attempts: Pick<FailedAttempts, 'waitSeconds' | 'begin'>): Clients {
    const { config, files } = this.#current.loaded
    const { passwords, credentialKey: key } = this.#surroundings
    const { queue } = passwords
    return new Clients(config.clients, { htpasswd: files.htpasswd, passwords, queue, attempts, key })
  }
}
