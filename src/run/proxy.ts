/** The composition root: creates a running proxy from a configuration. Only this file knows all parts. */
import { setTimeout } from 'node:timers/promises'
import { AdminAccess } from '../admin/access.js'
import { AdminServer, type Control } from '../admin/server.js'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import {
  type PassedSockets,
  type SentSocket,
  bindables,
  removeStaleSockets,
  samePorts,
} from '../listener/bind.js'
import { limitsOfEntries } from '../limits/client-limits.js'
import { exchangeIds } from '../listener/exchange.js'
import { ProxyServer } from '../listener/server.js'
import type { MetricsReport } from '../observe/exposition.js'
import { reportCache } from '../observe/cache-report.js'
import { MAX_TUNNELS, MAX_WORKER_SHARES } from '../observe/merge-status.js'
import type { ReloadState, WorkerStatus } from '../observe/worker-status.js'
import { type Listeners, configuredListeners } from '../pipeline/create-policy.js'
import type { Purge } from '../upstream/cache/store.js'
import { type LoadedConfig, Runtime } from './runtime.js'
import { restartKeys } from './changed-keys.js'
import { Current, type ServiceEnvironment, type Services, openServices } from './services.js'

export type { LoadedConfig } from './runtime.js'

/** The environment of a proxy, parts of which tests replace. */
export interface ProxyEnvironment extends ServiceEnvironment {
  /** The id of this process, for its status. */
  readonly pid?: number
  /** Listening sockets from systemd. */
  readonly passedSockets?: PassedSockets
  /** A listening socket in another network namespace, in addition to the addresses of the configuration. */
  readonly sent?: SentSocket
  /** Absent for a proxy without workers. */
  readonly worker?: WorkerContext
  /** Waits for a number of milliseconds. */
  readonly wait?: (ms: number) => Promise<void>
}

/** What a proxy needs to know when it is one of several worker processes. */
export interface WorkerContext {
  /** From 1; unique among all workers since the start. */
  readonly number: number
  /** The address of the supervisor's admin listener; workers have none. */
  readonly admin: ListenAddress | undefined
  /** Whether each worker binds its TCP addresses itself; otherwise node:cluster binds for all of them. */
  readonly reusePort: boolean
  /** The listeners of the first worker; undefined for the first one itself. */
  readonly bound: Listeners | undefined
}

export interface Reloaded {
  /** Keys that differ from those at the start and take effect only after a restart. */
  readonly needsRestart: readonly string[]
  /** Tunnels that were closed because the new configuration does not allow them. */
  readonly closedTunnels: number
}

export interface RunningProxy extends Listeners {
  /**
   * Replaces the configuration for everything that begins from now on. Tunnels that the new one does not allow are
   * closed; requests in progress and all other tunnels continue as they began.
   *
   * @throws OpenSSL's error when the TLS files are not usable, although they were checked; nothing has changed then
   */
  reload(loaded: LoadedConfig): Promise<Reloaded>
  /** All metrics, as plain JSON; one report for each process. */
  metrics(): Promise<readonly MetricsReport[]>
  /** The status of each process that serves clients, as plain JSON. */
  status(): Promise<readonly WorkerStatus[]>
  /**
   * Closes a tunnel at an operator's request.
   * @param id of its exchange
   * @returns false when there is no such open tunnel
   */
  closeTunnel(id: string): Promise<boolean>
  /**
   * Removes stored responses from the cache.
   * @returns how many; undefined when the cache is off
   */
  purgeCache(what: Purge): Promise<number | undefined>
  /** Must be called after each reload, also a rejected one: it is counted, and shown as the last reload. */
  reloaded(state: ReloadState): void
  /**
   * Reports that it is not ready, continues for `shutdown.delay`, then stops accepting, waits for what is open at most
   * as long as `shutdown.drain`, and closes everything.
   */
  drain(): Promise<void>
  /** Resolves when the proxy cannot continue; it must still be drained. */
  readonly fault: Promise<Error>
}

/**
 * Starts a proxy.
 *
 * @throws the system's error when an address cannot be bound, the errors of bindables and removeStaleSocket, OpenSSL's
 *   error when the files of `listen.tls` are not usable, TracingUnavailable when the packages of `tracing` are not
 *   installed; nothing is left open then
 */
export async function startProxy(loaded: LoadedConfig, environment: ProxyEnvironment): Promise<RunningProxy> {
  const { startId, worker } = environment
  const instance = worker === undefined ? startId : `${startId}-${worker.number.toString(36)}`
  const runtime = new Current<Runtime>()
  const services = await openServices(loaded, environment, runtime, instance)
  runtime.value = await Runtime.open(loaded, services, configuredListeners(loaded.config))
  const server = createServer(services, runtime, instance, worker?.reusePort === true)
  const proxy = new SingleProxy(loaded, environment, services, server, runtime)
  await proxy.listen()
  return proxy
}

function createServer(
  { now, date, tunnels, shares, descriptors, logger }: Services,
  runtime: Current<Runtime>,
  instance: string,
  reusePort: boolean,
): ProxyServer {
  const server = new ProxyServer({
    now,
    date,
    nextId: exchangeIds(instance),
    tunnels,
    shares,
    descriptors,
    handshakeFailed: (clientAddress, code) =>
      logger.warn({ event: 'tls_client_error', client_address: clientAddress, error: code }),
    proxyHeaderFailed: (address, reason) =>
      logger.warn({ event: 'proxy_header_error', client_address: address, error: reason }),
    reusePort,
  })
  server.configure(runtime.value.settings)
  return server
}

class SingleProxy implements RunningProxy, Control {
  readonly fault = new Promise<Error>(() => {})
  readonly #started: LoadedConfig
  readonly #startedMs: number
  readonly #environment: ProxyEnvironment
  readonly #services: Services
  readonly #server: ProxyServer
  readonly #admin: AdminServer
  readonly #runtime: Current<Runtime>
  /** The current runtime, and replaced ones that still have exchanges. */
  readonly #runtimes: Set<Runtime>
  #listeners: Listeners
  #lastReload: ReloadState | undefined
  #needsRestart: readonly string[] = []
  #stopped: Promise<void> | undefined

  constructor(
    loaded: LoadedConfig,
    environment: ProxyEnvironment,
    services: Services,
    server: ProxyServer,
    runtime: Current<Runtime>,
  ) {
    const { wallClock, descriptors, tunnels, passwords, now, logger } = services
    this.#started = loaded
    this.#startedMs = wallClock()
    this.#environment = environment
    this.#services = services
    this.#server = server
    const access = new AdminAccess(() => runtime.value.adminRules, passwords, now)
    this.#admin = new AdminServer(this, access, { wallClock, descriptors, logger })
    this.#runtime = runtime
    this.#runtimes = new Set([runtime.value])
    this.#listeners = configuredListeners(loaded.config)
    void tunnels.enforce(runtime.value)
  }

  get proxy(): readonly ListenAddress[] {
    return this.#listeners.proxy
  }

  get tls(): TcpAddress | undefined {
    return this.#listeners.tls
  }

  get admin(): ListenAddress | undefined {
    return this.#listeners.admin
  }

  /** @throws as startProxy; nothing is left open then */
  async listen(): Promise<void> {
    const { recorder } = this.#services
    try {
      this.#listeners = await bind(this.#server, this.#admin, this.#started, this.#environment)
    } catch (error) {
      await this.#stop(0)
      throw error
    }
    recorder.start()
    // Again, with the ports that were bound, as the file may say 0.
    this.#runtime.value.listening(this.#listeners)
  }

  async reload(loaded: LoadedConfig): Promise<Reloaded> {
    const services = this.#services
    const before = this.#runtime.value
    const after = await Runtime.open(loaded, services, this.#listeners, before)
    try {
      if (loaded.files.tls !== undefined) this.#server.secure(loaded.files.tls)
    } catch (error) {
      await after.close()
      throw error
    }
    this.#runtime.value = after
    this.#runtimes.add(after)
    const needsRestart = restartKeys(this.#started.config, after.config)
    this.#needsRestart = needsRestart
    // A changed collector takes effect only after a restart, and so do the headers for it.
    if (!needsRestart.includes('tracing.otlp')) services.spans?.authorize(loaded.files.tracingHeaders)
    this.#server.configure(after.settings)
    services.shares.configure(after.config.limits, limitsOfEntries(after.config))
    services.lookups.configure(after.config)
    void before.retire().then(() => this.#runtimes.delete(before))
    const closedTunnels = await services.tunnels.enforce(after)
    return { needsRestart, closedTunnels }
  }

  reloaded(state: ReloadState): void {
    this.#lastReload = state
    this.#services.metrics.configReloaded(state.result)
  }

  drain(): Promise<void> {
    this.#stopped ??= this.#shutDown()
    return this.#stopped
  }

  ready(): boolean {
    return this.#stopped === undefined
  }

  facts(): ReturnType<Control['facts']> {
    const { config, hash } = this.#runtime.value
    return {
      build: this.#environment.build,
      startedMs: this.#startedMs,
      config,
      configHash: hash,
      listeners: this.#listeners,
      lastReload: this.#lastReload,
      needsRestart: this.#needsRestart,
    }
  }

  async metrics(): Promise<readonly MetricsReport[]> {
    return [await this.#services.metrics.report()]
  }

  async status(): Promise<readonly WorkerStatus[]> {
    const { recorder, tunnels, metrics } = this.#services
    const { worker, pid } = this.#environment
    const runtime = this.#runtime.value
    const cache = await reportCache(runtime.cache, metrics.exchanges.cache)
    const upstreams = runtime.upstreamHealth().map(({ failures, ...health }) => ({
      ...health,
      failures: [...failures.values()].reduce((sum, count) => sum + count, 0),
    }))
    const report = recorder.report({
      worker: worker?.number ?? 1,
      pid,
      config: runtime.config,
      configHash: runtime.hash,
      tunnels: tunnels.list(MAX_TUNNELS),
      shares: tunnels.shares(MAX_WORKER_SHARES),
      upstreams,
      cache,
    })
    return [report]
  }

  async purgeCache(what: Purge): Promise<number | undefined> {
    return this.#runtime.value.cache?.purge(what)
  }

  async closeTunnel(id: string): Promise<boolean> {
    return this.#services.tunnels.stopOne(id, 'operator')
  }

  /**
   * Load balancers must see that it is not ready before connections are refused, so it waits first; for workers, the
   * supervisor waits.
   */
  async #shutDown(): Promise<void> {
    const { worker, wait = ms => setTimeout(ms) } = this.#environment
    const { delayMs } = this.#runtime.value.config.shutdown
    if (delayMs > 0 && worker === undefined) await wait(delayMs)
    await this.#stop(this.#runtime.value.config.shutdown.drainMs)
  }

  async #stop(deadlineMs: number): Promise<void> {
    const { spans, passwords, metrics, recorder } = this.#services
    await this.#server.drain(deadlineMs)
    // While names can still be resolved and addresses dialled, so that the last spans can be exported.
    await spans?.close()
    for (const runtime of this.#runtimes) await runtime.close()
    await passwords.close()
    await this.#admin.close()
    metrics.close()
    recorder.stop()
  }
}

async function bind(
  server: ProxyServer,
  admin: AdminServer,
  { config, files }: LoadedConfig,
  { passedSockets, sent, worker }: ProxyEnvironment,
): Promise<Listeners> {
  const addresses = bindables(config.listen, passedSockets)
  if (worker === undefined) await removeStaleSockets([...addresses.proxy, addresses.admin])
  const proxy: ListenAddress[] = []
  // If workers do not bind for themselves, node:cluster handles port 0.
  const known = worker?.reusePort === true ? worker.bound : undefined
  for (const address of samePorts(addresses.proxy, known?.proxy)) proxy.push(await server.listen(address))
  // Not added to the own listeners: the same address in this namespace is another one.
  if (sent !== undefined) await server.listen(sent)
  let tls: TcpAddress | undefined
  if (config.listen.tls !== undefined) {
    if (files.tls === undefined) throw new TypeError('listen.tls without the content of its files')
    tls = await server.listenTls(known?.tls ?? config.listen.tls.address, files.tls)
  }
  if (worker !== undefined) return { proxy, tls, admin: worker.admin }
  return { proxy, tls, admin: addresses.admin && (await admin.listen(addresses.admin)) }
}
