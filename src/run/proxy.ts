/** The composition root: from a configuration to a running proxy. Nothing else knows all the parts. */
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

/** What the outside world is made of; tests put their own in. */
export interface ProxyEnvironment extends ServiceEnvironment {
  /** Of this process, for its status. */
  readonly pid?: number
  /** What systemd passed on. */
  readonly passedSockets?: PassedSockets
  /** Where clients connect in another network namespace, beside the addresses of the configuration. */
  readonly sent?: SentSocket
  /** Absent for a proxy that is alone. */
  readonly worker?: WorkerPlace
  /** Waits so many milliseconds. */
  readonly wait?: (ms: number) => Promise<void>
}

/** What a proxy has to know that is one of several worker processes. */
export interface WorkerPlace {
  /** From 1; no other worker of this start, before or after, has it. */
  readonly number: number
  /** Where the supervisor has the admin listener, which no worker has. */
  readonly admin: ListenAddress | undefined
  /** Whether each worker binds its TCP addresses itself; where they do not, node:cluster binds for all of them. */
  readonly reusePort: boolean
  /** What the first of them listens on; undefined for that one. */
  readonly bound: Listeners | undefined
}

export interface Reloaded {
  /** Keys that differ from those of the start, which has no effect before a restart. */
  readonly needsRestart: readonly string[]
  /** Tunnels that were closed as the new configuration does not allow them. */
  readonly closedTunnels: number
}

export interface RunningProxy extends Listeners {
  /**
   * Puts another configuration in place of the one that is in force, for everything that begins from now on. Tunnels
   * that it does not allow are closed; requests under way and all other tunnels go on as they began.
   *
   * @throws OpenSSL's error when the files of the configuration are not those that were checked; nothing has changed then
   */
  reload(loaded: LoadedConfig): Promise<Reloaded>
  /** What has been counted so far, as plain JSON; one report for each process. */
  metrics(): Promise<readonly MetricsReport[]>
  /** How each process that serves clients does, as plain JSON. */
  status(): Promise<readonly WorkerStatus[]>
  /**
   * Ends a tunnel, as an operator asks for.
   * @param id of its exchange
   * @returns false when there is none, or none any more
   */
  closeTunnel(id: string): Promise<boolean>
  /**
   * Forgets what is stored.
   * @returns how many responses; undefined while the cache is off
   */
  purgeCache(what: Purge): Promise<number | undefined>
  /** To be told how a reload went, one that was rejected too: it is counted, and shown as the last one. */
  reloaded(state: ReloadState): void
  /**
   * Is no longer ready, goes on for `shutdown.delay`, then stops accepting, waits for what is open as long as
   * `shutdown.drain` says, and closes everything.
   */
  drain(): Promise<void>
  /** Resolves when it cannot go on; it is still to be drained. */
  readonly fault: Promise<Error>
}

/**
 * Starts a proxy.
 *
 * @throws the system's error when an address cannot be bound, those of bindables and removeStaleSocket, OpenSSL's when the files of `listen.tls` are not those
 *   that were checked, TracingUnavailable when the packages of `tracing` are not installed; nothing is left open then
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
  /** Those that still have exchanges, too. */
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

  /** @throws as startProxy does; nothing is left open then */
  async listen(): Promise<void> {
    const { recorder } = this.#services
    try {
      this.#listeners = await bind(this.#server, this.#admin, this.#started, this.#environment)
    } catch (error) {
      await this.#stop(0)
      throw error
    }
    recorder.start()
    // Again, with the ports that were really bound: they are another thing where the file says 0.
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
    // Not what is for a collector that is not asked yet.
    if (!needsRestart.includes('tracing.otlp')) services.spans?.authorize(loaded.files.tracingHeaders)
    this.#server.configure(after.settings)
    services.shares.configure(after.config.limits)
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
    this.#stopped ??= this.#leave()
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
   * Whoever sends clients here has to see that it is not ready before they are turned away; for workers, the supervisor
   * sees to that.
   */
  async #leave(): Promise<void> {
    const { worker, wait = ms => setTimeout(ms) } = this.#environment
    const { delayMs } = this.#runtime.value.config.shutdown
    if (delayMs > 0 && worker === undefined) await wait(delayMs)
    await this.#stop(this.#runtime.value.config.shutdown.drainMs)
  }

  async #stop(deadlineMs: number): Promise<void> {
    const { spans, passwords, metrics, recorder } = this.#services
    await this.#server.drain(deadlineMs)
    // While names are still resolved and addresses dialled.
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
  // Where workers do not bind for themselves, node:cluster sees to it.
  const known = worker?.reusePort === true ? worker.bound : undefined
  for (const address of samePorts(addresses.proxy, known?.proxy)) proxy.push(await server.listen(address))
  // Its address is none of this namespace: whoever asks for the same one here means something else.
  if (sent !== undefined) await server.listen(sent)
  let tls: TcpAddress | undefined
  if (config.listen.tls !== undefined) {
    if (files.tls === undefined) throw new TypeError('listen.tls, and nothing of its files')
    tls = await server.listenTls(known?.tls ?? config.listen.tls.address, files.tls)
  }
  if (worker !== undefined) return { proxy, tls, admin: worker.admin }
  return { proxy, tls, admin: addresses.admin && (await admin.listen(addresses.admin)) }
}
