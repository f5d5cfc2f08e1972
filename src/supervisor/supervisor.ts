/**
 * The supervisor of worker processes, each of which is a complete proxy on the same addresses. The supervisor serves no
 * clients: it runs the admin listener, and passes reloads and the stop on to all workers.
 *
 * It has the same interface as a proxy without workers.
 */
import { AdminAccess, adminRules } from '../admin/access.js'
import { AdminServer, type Control } from '../admin/server.js'
import { BcryptThread } from '../clients/bcrypt-thread.js'
import { keepReadOnce, restartKeys } from '../run/changed-keys.js'
import type { LoadedConfig } from '../run/runtime.js'
import { configuredListeners, type Listeners } from '../pipeline/create-policy.js'
import { bindables, type PassedSockets, removeStaleSockets } from '../listener/bind.js'
import type { Reloaded, RunningProxy } from '../run/proxy.js'
import { type Descriptors, NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { LocalLedger } from '../limits/ledger.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { ReloadState, WorkerStatus } from '../observe/worker-status.js'
import type { Purge } from '../upstream/cache/store.js'
import { Fleet, type FleetOptions } from './fleet.js'
import { FleetMetrics } from './fleet-metrics.js'
import { pause } from '../pause.js'
import { ANSWER_SECONDS, isSettledWithin, PURGE_SECONDS } from './waits.js'
import { probePorts } from './port-sharing.js'
import type { WorkerHandle } from './worker-handle.js'

export interface SupervisorOptions
  extends Pick<FleetOptions, 'logger' | 'fork' | 'passLog' | 'passError'>,
    Partial<Pick<FleetOptions, 'pause' | 'now' | 'wallClock'>> {
  /** A random text, generated at the start, which all workers share. */
  readonly startId: string
  /** Shown in the metrics. */
  readonly build?: BuildInfo
  /** How many lines the log has lost; absent where that is not known. */
  readonly lostLogLines?: () => number
  /** Metrics of this process. */
  readonly processMetrics?: () => Promise<MetricsReport>
  /** The number of workers. */
  readonly workers: number
  /** Whether each worker binds its TCP addresses itself: see canReusePort. */
  readonly reusePort: boolean
  /** Listening sockets from systemd. */
  readonly passedSockets?: PassedSockets
  /** Aborts a start in progress, whatever the workers do. */
  readonly interrupt?: AbortSignal
  /** The descriptors of this process. */
  readonly descriptors?: Descriptors
}

/** They are closed with the last worker that uses them, and only systemd can open them again. */
const LOST_SOCKETS = 'all workers have ended at once, and the sockets of systemd with them'

/** How much longer than the deadline of a drain a worker may take to end. */
const GRACE_MS = 5000

/**
 * @throws the errors of startProxy, from here or from the first worker, or WorkerEnded; no process is left then
 */
export async function startSupervisor(
  loaded: LoadedConfig,
  options: SupervisorOptions,
): Promise<RunningProxy> {
  const supervisor = new Supervisor(loaded, options)
  const bound = await supervisor.start()
  return {
    ...bound,
    reload: next => supervisor.reload(next),
    reloaded: state => supervisor.reloaded(state),
    metrics: () => supervisor.metrics.reports(),
    status: () => supervisor.status(),
    closeTunnel: id => supervisor.closeTunnel(id),
    purgeCache: what => supervisor.purgeCache(what),
    drain: () => supervisor.drain(),
    fault: supervisor.fault,
  }
}

class Supervisor {
  readonly metrics: FleetMetrics
  readonly fault: Promise<Error>
  readonly #options: SupervisorOptions
  readonly #pause: FleetOptions['pause']
  readonly #admin: AdminServer
  /** Checks passwords for the admin listener; workers check those of clients. */
  readonly #passwords = new BcryptThread()
  readonly #fleet: Fleet
  readonly #start: LoadedConfig
  /** The configuration for workers that start from now on. */
  #current: LoadedConfig
  #adminAddress: Listeners['admin']
  #listeners: Listeners | undefined
  #lastReload: ReloadState | undefined
  #needsRestart: readonly string[] = []
  /** Whether workers use sockets from systemd. */
  #hasPassed = false
  #onFault: (error: Error) => void = () => {}
  #stopping = false
  #drained: Promise<void> | undefined

  constructor(loaded: LoadedConfig, options: SupervisorOptions) {
    this.#options = options
    this.#pause = options.pause ?? pause
    this.#start = loaded
    this.#current = loaded
    this.fault = new Promise(resolve => {
      this.#onFault = resolve
    })
    this.metrics = new FleetMetrics({
      configHash: () => this.#current.hash,
      build: options.build,
      lostLogLines: options.lostLogLines ?? (() => 0),
      process: options.processMetrics,
      pause: this.#pause,
    })
    const { now = () => performance.now(), wallClock = Date.now } = options
    const { startId, build, passedSockets, reusePort } = options
    this.#fleet = new Fleet({
      ...options,
      now,
      wallClock,
      pause: this.#pause,
      ledger: new LocalLedger(now),
      start: () => ({ loaded: this.#current, startId, build, passedSockets }),
      context: () => ({ admin: this.#adminAddress, reusePort }),
      probe: async () => {
        if (reusePort) await probePorts(loaded.config.listen)
      },
      started: worker => this.metrics.started(worker),
      restarted: () => this.metrics.workerRestarted(),
      ended: worker => this.#ended(worker),
    })
    const access = new AdminAccess(() => adminRules(this.#current), this.#passwords, now)
    this.#admin = new AdminServer(this.#control(wallClock()), access, {
      wallClock,
      descriptors: options.descriptors ?? NO_DESCRIPTOR_KEPT,
      logger: options.logger,
    })
  }

  async start(): Promise<Listeners> {
    const { proxy, admin } = bindables(this.#start.config.listen, this.#options.passedSockets)
    await removeStaleSockets([...proxy, admin])
    this.#hasPassed = proxy.some(address => 'fd' in address)
    this.#adminAddress = admin && (await this.#admin.listen(admin))
    try {
      const { workers, interrupt = new AbortController().signal } = this.#options
      this.#listeners = await this.#fleet.start(workers, interrupt)
    } catch (error) {
      await this.#close()
      throw error
    }
    return this.#listeners
  }

  /** Reloads one worker first: if that fails, the reload is rejected. Any other worker that fails is replaced. */
  async reload(loaded: LoadedConfig): Promise<Reloaded> {
    const needsRestart = restartKeys(this.#start.config, loaded.config)
    let closedTunnels = 0
    const fleet = this.#fleet
    const unresponsive = await this.#unresponsive()
    let done: WorkerHandle | undefined
    for (const first of fleet.serving) {
      if (unresponsive.has(first)) continue
      try {
        closedTunnels += (await first.reload(loaded)).closedTunnels
        done = first
        break
      } catch (error) {
        if (first.alive && first.serving) throw error
      }
    }
    // Workers that start from here on use the new configuration.
    this.#current = configForNewWorker(this.#start, this.#current, loaded)
    this.#needsRestart = needsRestart
    const others = fleet.serving.filter(worker => worker !== done)
    const counts = await Promise.all(
      others.map(worker => {
        const reloaded = worker.reload(loaded).then(
          ({ closedTunnels }) => closedTunnels,
          error => {
            worker.kill(error)
            return 0
          },
        )
        // An unresponsive worker reloads first of all when it continues, or is replaced; it is not waited for.
        return unresponsive.has(worker) ? 0 : reloaded
      }),
    )
    for (const count of counts) closedTunnels += count
    return { needsRestart, closedTunnels }
  }

  /** The workers that do not answer in time. */
  async #unresponsive(): Promise<ReadonlySet<WorkerHandle>> {
    const unresponsive = new Set<WorkerHandle>()
    const asked = this.#fleet.serving.map(async worker => {
      if (!(await isSettledWithin(worker.beat(), ANSWER_SECONDS, this.#pause))) unresponsive.add(worker)
    })
    await Promise.all(asked)
    return unresponsive
  }

  reloaded(state: ReloadState): void {
    this.#lastReload = state
    this.metrics.configReloaded(state.result)
  }

  status(): Promise<readonly WorkerStatus[]> {
    return this.#ask(worker => worker.status())
  }

  async closeTunnel(id: string): Promise<boolean> {
    return (await this.#ask(worker => worker.closeTunnel(id))).includes(true)
  }

  /**
   * Purges in all workers, including those that do not respond at the moment: they purge when they continue.
   * @returns how many responses; undefined while the cache is off
   * @throws when a worker has not answered in time, or there is none
   */
  async purgeCache(what: Purge): Promise<number | undefined> {
    if (this.#current.config.cache === undefined) return undefined
    const { serving } = this.#fleet
    if (serving.length === 0) throw new Error('no worker serves, so nothing was purged')
    const purges = serving.map(async worker => {
      const purge = worker.purgeCache(what)
      const isInTime = await isSettledWithin(purge, PURGE_SECONDS, this.#pause)
      if (!isInTime) throw new Error('a worker has not purged its cache in time')
      // The cache of a worker that has ended is gone, or is purged by another worker.
      return purge.catch(error => {
        if (worker.alive) throw error
        return null
      })
    })
    const counts = (await Promise.all(purges)).filter(count => count !== null)
    // Each worker has its own memory store; of a shared store each entry is purged by one of them.
    return counts.length === 0 ? undefined : counts.reduce((sum, count) => sum + count, 0)
  }

  /** The answers of the workers that answer in time. */
  async #ask<T extends WorkerStatus | boolean>(question: (worker: WorkerHandle) => Promise<T>): Promise<T[]> {
    const answers = this.#fleet.answering.map(async worker => {
      const asked = question(worker).catch(() => undefined)
      return (await isSettledWithin(asked, ANSWER_SECONDS, this.#pause)) ? asked : undefined
    })
    return (await Promise.all(answers)).filter(answer => answer !== undefined)
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain()
    return this.#drained
  }

  async #drain(): Promise<void> {
    this.#stopping = true
    const { delayMs, drainMs } = this.#current.config.shutdown
    const ended = new AbortController()
    // During the delay everything continues, and a worker that dies is replaced.
    if (delayMs > 0 && this.#fleet.serving.length > 0) await this.#pause(delayMs, ended.signal)
    this.#fleet.stop()
    const late = this.#pause(drainMs + GRACE_MS, ended.signal).then(() => {
      if (!ended.signal.aborted) this.#fleet.kill('it did not end in time')
    })
    await this.#fleet.ended()
    ended.abort()
    await late
    await this.#close()
  }

  async #close(): Promise<void> {
    await this.#admin.close()
    await this.#passwords.close()
    this.metrics.close()
  }

  #ended(worker: WorkerHandle): void {
    this.metrics.ended(worker)
    if (this.#fleet.isEmpty && this.#hasPassed) this.#onFault(new Error(LOST_SOCKETS))
  }

  /** @param startedMs milliseconds since the epoch */
  #control(startedMs: number): Control {
    const { build } = this.#options
    return {
      ready: () => !this.#stopping && this.#fleet.answering.length > 0,
      facts: () => {
        const { config, hash: configHash } = this.#current
        const [lastReload, needsRestart] = [this.#lastReload, this.#needsRestart]
        const listeners = this.#listeners ?? configuredListeners(this.#start.config)
        return { build, startedMs, config, configHash, listeners, lastReload, needsRestart }
      },
      metrics: () => this.metrics.reports(),
      status: () => this.status(),
      closeTunnel: id => this.closeTunnel(id),
      purgeCache: what => this.purgeCache(what),
    }
  }
}

/**
 * The configuration for a worker that starts after a reload: the new one, except for keys that are read only once, at
 * the start, which must be the same as in the other workers.
 * @param start the configuration of the first workers
 * @param current the configuration before this reload
 * @param loaded the configuration of this reload
 */
function configForNewWorker(start: LoadedConfig, current: LoadedConfig, loaded: LoadedConfig): LoadedConfig {
  const { tls: before } = current.files
  const { tls: now } = loaded.files
  const fits = before === undefined || (now !== undefined && !before.clientCa === !now.clientCa)
  const tls = fits || before === undefined ? {} : { tls: before }
  // The headers of a changed collector must not be sent to the previous one, which is used until a restart.
  const tracingHeaders = restartKeys(start.config, loaded.config).includes('tracing.otlp')
    ? current.files.tracingHeaders
    : loaded.files.tracingHeaders
  const files = { ...loaded.files, ...tls, tracingHeaders }
  return { ...loaded, config: keepReadOnce(start.config, loaded.config), files }
}
