/** The composition root: from a configuration to a running proxy. Nothing else knows all the parts. */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { AdminServer, type Control } from '../admin/server.js'
import { BcryptThread } from '../clients/bcrypt-thread.js'
import { FailedAttempts } from '../clients/failed-attempts.js'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import { restartKeys } from './changed-keys.js'
import { Generation, type LoadedConfig } from './generation.js'
import { createHttpDate } from '../http/date.js'
import { type Descriptors, NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { type Ledger, LocalLedger } from '../limits/ledger.js'
import type { LimitName } from '../limits/refusals.js'
import { Shares } from '../limits/shares.js'
import { bindables, type PassedSockets } from '../listener/passed-sockets.js'
import { configuredListeners, type Listeners } from '../pipeline/create-policy.js'
import { samePorts } from '../listener/same-ports.js'
import { ProxyServer } from '../listener/server.js'
import { removeStaleSockets } from '../listener/unix-socket.js'
import type { MetricsReport } from '../observe/exposition.js'
import { MAX_TUNNELS } from '../observe/merge-status.js'
import { type BuildInfo, Metrics } from '../observe/metrics.js'
import { StatusRecorder } from '../observe/status-recorder.js'
import type { ReloadState, WorkerStatus } from '../observe/worker-status.js'
import { ReadBuffers } from '../tunnel/read-buffer.js'
import type { Connector } from '../upstream/dial.js'
import { TunnelRegistry } from '../tunnel/registry.js'
import { Lookups, type NameEnvironment } from '../dns/resolve.js'
import { openSpanExport, type SpanExport } from '../tracing/span-export.js'

export type { LoadedConfig } from './generation.js'

/** What the outside world is made of; tests put their own in. */
export interface ProxyEnvironment extends NameEnvironment {
  readonly logger: Logger
  /** A random text, made once a start; names this proxy in Via and begins every exchange's id. */
  readonly startId: string
  /** Named in the metrics. */
  readonly build?: BuildInfo
  /** Metrics of the process, of `createProcessMetrics`, which go out with those of this proxy. */
  readonly processMetrics?: () => Promise<MetricsReport>
  /** Of this process, for its status. */
  readonly pid?: number
  /** What systemd passed on. */
  readonly passedSockets?: PassedSockets
  /** Absent for a proxy that is alone. */
  readonly worker?: WorkerPlace
  /** In place of its own count of wrong credentials. */
  readonly attempts?: FailedAttempts
  readonly connector?: Connector
  readonly descriptors?: Descriptors
  /** Milliseconds, monotonic. */
  readonly now?: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  /** Waits so many milliseconds. */
  readonly wait?: (ms: number) => Promise<void>
  /** Where limits are counted; by itself, each proxy has its own. */
  readonly ledger?: Ledger
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
  /** To be told how a reload went, one that was rejected too: it is counted, and shown as the last one. */
  reloaded(state: ReloadState): void
  /**
   * Is no longer ready, goes on for `shutdown.delay`, then stops accepting, waits for what is open as long as
   * `shutdown.drain` says, and closes everything.
   */
  drain(): Promise<void>
  /** Resolves when it can not go on; it is still to be drained. */
  readonly fault: Promise<Error>
}

/**
 * Starts a proxy.
 *
 * @throws the system's error when an address can not be bound, those of bindables and removeStaleSocket, OpenSSL's when the files of `listen.tls` are not those
 *   that were checked, TracingUnavailable when the packages of `tracing` are not installed; nothing is left open then
 */
export async function startProxy(loaded: LoadedConfig, environment: ProxyEnvironment): Promise<RunningProxy> {
  const now = environment.now ?? (() => performance.now())
  const wallClock = environment.wallClock ?? Date.now
  const date = createHttpDate(wallClock)
  const { startId, worker } = environment
  const idPrefix = worker === undefined ? startId : `${startId}-${worker.number.toString(36)}`
  const { tracing } = loaded.config
  const spanExport: SpanExport | undefined =
    tracing &&
    (await openSpanExport({
      config: tracing,
      headers: loaded.files.tracingHeaders,
      dialer: () => current.dialer,
      instance: idPrefix,
      version: environment.build?.version,
      logger: environment.logger,
      query: () => current.config.log.query,
      now,
      wallClock,
    }))
  const passwords = new BcryptThread()
  const wait = environment.wait ?? (ms => setTimeout(ms))
  const limitReached = (limit: LimitName): void => metrics.exchanges.limitReached(limit)
  const shares = new Shares(loaded.config.limits, environment.ledger ?? new LocalLedger(now), limitReached)
  const lookups = new Lookups(loaded.config, environment, limitReached)
  const { descriptors = NO_DESCRIPTOR_KEPT } = environment
  const tunnels = new TunnelRegistry(now)
  let exchanges = 0
  const server: ProxyServer = new ProxyServer({
    now,
    date,
    nextId: () => `${idPrefix}-${(++exchanges).toString(36)}`,
    serve: exchange => current.serve(exchange),
    tunnels,
    shares,
    descriptors,
    handshakeFailed: (clientAddress, code) =>
      environment.logger.warn({ event: 'tls_client_error', client_address: clientAddress, error: code }),
    headerFailed: (address, reason) =>
      environment.logger.warn({ event: 'proxy_header_error', client_address: address, error: reason }),
    reusePort: worker?.reusePort === true,
  })
  const metrics: Metrics = new Metrics({
    configHash: () => current.hash,
    tunnels: () => tunnels,
    upstreams: () => current.upstreamHealth(),
    build: environment.build,
    process: environment.processMetrics,
  })
  const startedMs = wallClock()
  const recorder: StatusRecorder = new StatusRecorder({
    now,
    wallClock,
    totals: () => {
      const { requests, denied, bytesUp, bytesDown } = metrics.exchanges.totals
      const bytes = { bytesUp: bytesUp + tunnels.bytesUp, bytesDown: bytesDown + tunnels.bytesDown }
      return { requests, denied, ...bytes, opened: tunnels.opened, tunnels: tunnels.size }
    },
  })
  let lastReload: ReloadState | undefined
  let needsRestart: readonly string[] = []
  const surroundings = {
    logger: environment.logger,
    startId,
    lookups,
    connector: environment.connector,
    now,
    wallClock,
    date,
    passwords,
    attempts: environment.attempts ?? new FailedAttempts(now),
    credentialKey: randomBytes(32),
    buffers: new ReadBuffers(),
    tunnels,
    observers: [metrics.exchanges, recorder, ...(spanExport === undefined ? [] : [spanExport.spans])],
    shares,
    descriptors,
  }
  const configured = configuredListeners(loaded.config)
  let current: Generation = new Generation(loaded, surroundings, configured)
  const generations = new Set([current])
  void tunnels.enforce(current)
  server.configure(current.settings)
  let stopped: Promise<void> | undefined
  const status = async (): Promise<readonly WorkerStatus[]> => [
    recorder.report({
      worker: worker?.number ?? 1,
      pid: environment.pid,
      config: current.config,
      configHash: current.hash,
      tunnels: tunnels.list(MAX_TUNNELS),
      upstreams: current.upstreamHealth().map(({ failures, ...health }) => ({
        ...health,
        failures: [...failures.values()].reduce((sum, count) => sum + count, 0),
      })),
    }),
  ]
  const closeTunnel = async (id: string): Promise<boolean> => tunnels.stopOne(id, 'operator')
  const reports = async (): Promise<readonly MetricsReport[]> => [await metrics.report()]
  let listeners = configured
  const control: Control = {
    ready: () => stopped === undefined,
    facts: () => {
      const { config, hash: configHash } = current
      return { build: environment.build, startedMs, config, configHash, listeners, lastReload, needsRestart }
    },
    metrics: reports,
    status,
    closeTunnel,
  }
  const admin = new AdminServer(control, () => current.config.listen.adminHosts, { wallClock, descriptors })

  const stop = async (deadlineMs: number): Promise<void> => {
    await server.drain(deadlineMs)
    // While names are still resolved and addresses dialled.
    await spanExport?.close()
    for (const generation of generations) await generation.close()
    await passwords.close()
    await admin.close()
    metrics.close()
    recorder.stop()
  }
  let bound: Listeners
  try {
    listeners = bound = await listen(server, admin, loaded, environment)
  } catch (error) {
    await stop(0)
    throw error
  }
  recorder.start()
  // Again, with the ports that were really bound: they are another thing where the file says 0.
  current.listening(bound)

  const reload = async (next: LoadedConfig): Promise<Reloaded> => {
    const before = current
    const after = new Generation(next, surroundings, bound, before)
    try {
      if (next.files.tls !== undefined) server.secure(next.files.tls)
    } catch (error) {
      await after.close()
      throw error
    }
    current = after
    generations.add(after)
    needsRestart = restartKeys(loaded.config, after.config)
    // Not what is for a collector that is not asked yet.
    if (!needsRestart.includes('tracing.otlp')) spanExport?.authorize(next.files.tracingHeaders)
    server.configure(after.settings)
    shares.configure(after.config.limits)
    lookups.configure(after.config)
    void before.retire().then(() => generations.delete(before))
    const closedTunnels = await tunnels.enforce(after)
    return { needsRestart, closedTunnels }
  }
  const reloaded = (state: ReloadState): void => {
    lastReload = state
    metrics.configReloaded(state.result)
  }
  // Whoever sends clients here has to see that it is not ready before they are turned away; for workers, the supervisor
  // sees to that.
  const leave = async (): Promise<void> => {
    const { delayMs } = current.config.shutdown
    if (delayMs > 0 && worker === undefined) await wait(delayMs)
    await stop(current.config.shutdown.drainMs)
  }
  const drain = (): Promise<void> => {
    stopped ??= leave()
    return stopped
  }
  return {
    ...bound,
    reload,
    reloaded,
    metrics: reports,
    status,
    closeTunnel,
    drain,
    fault: new Promise(() => {}),
  }
}

async function listen(
  server: ProxyServer,
  admin: AdminServer,
  { config, files }: LoadedConfig,
  { passedSockets, worker }: ProxyEnvironment,
): Promise<Listeners> {
  const addresses = bindables(config.listen, passedSockets)
  if (worker === undefined) await removeStaleSockets([...addresses.proxy, addresses.admin])
  const proxy: ListenAddress[] = []
  // Where workers do not bind for themselves, node:cluster sees to it.
  const known = worker?.reusePort === true ? worker.bound : undefined
  for (const address of samePorts(addresses.proxy, known?.proxy)) proxy.push(await server.listen(address))
  let tls: TcpAddress | undefined
  if (config.listen.tls !== undefined) {
    if (files.tls === undefined) throw new TypeError('listen.tls, and nothing of its files')
    tls = await server.listenTls(known?.tls ?? config.listen.tls.address, files.tls)
  }
  if (worker !== undefined) return { proxy, tls, admin: worker.admin }
  return { proxy, tls, admin: addresses.admin && (await admin.listen(addresses.admin)) }
}
