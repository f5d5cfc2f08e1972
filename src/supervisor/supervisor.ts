/**
 * The supervisor of worker processes, each of which is a whole proxy on the same addresses. It serves no clients: it
 * has the admin listener, replaces workers that die, and tells all of them of a reload and of the end.
 *
 * To whoever starts it, it is a proxy like one that is alone.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Control } from '../admin/control.js'
import { AdminServer } from '../admin/server.js'
import { restartKeys } from '../config/restart-keys.js'
import type { LoadedConfig } from '../generation.js'
import { configuredListeners, type Listeners } from '../listener/create-policy.js'
import { bindables, type PassedSockets } from '../listener/passed-sockets.js'
import { removeStaleSockets } from '../listener/unix-socket.js'
import type { Reloaded, RunningProxy } from '../proxy.js'
import { LocalLedger } from '../limits/ledger.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { ReloadState, WorkerStatus } from '../observe/worker-status.js'
import { Backoff } from './backoff.js'
import { FleetMetrics } from './fleet-metrics.js'
import { likeStarted } from './like-started.js'
import { pause } from './pause.js'
import { WorkerHandle } from './worker-handle.js'
import type { WorkerExit, WorkerProcess } from './worker-process.js'

export interface SupervisorOptions {
  readonly logger: Logger
  /** A random text, made once a start, that all workers share. */
  readonly startId: string
  /** Named in the metrics. */
  readonly build?: BuildInfo
  /** Metrics of this process. */
  readonly processMetrics?: Registry
  /** How many. */
  readonly workers: number
  readonly fork: () => WorkerProcess
  /** What systemd passed on. */
  readonly passedSockets?: PassedSockets
  /** Get whole lines that a worker wrote to its standard output, and to its standard error. */
  readonly passLog: (lines: string) => void
  readonly passError: (lines: string) => void
  /** Resolves when so many milliseconds are over, or at once when the signal says so. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>
  /** Milliseconds, monotonic. */
  readonly now?: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
}

/** They close with the last worker that has them, and systemd alone can open them again. */
const LOST_SOCKETS = 'all workers have ended at once, and the sockets of systemd with them'

/** How much longer than the deadline of a drain a worker may take to end. */
const GRACE_MS = 5000

/**
 * @throws what the first worker could not do, or the system's error when the admin address can not be bound; no process
 *   is left then
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
    drain: () => supervisor.drain(),
    fault: supervisor.fault,
  }
}

class Supervisor {
  readonly metrics: FleetMetrics
  readonly fault: Promise<Error>
  readonly #options: SupervisorOptions
  readonly #now: () => number
  readonly #pause: (ms: number, signal: AbortSignal) => Promise<void>
  readonly #admin: AdminServer
  readonly #ledger: LocalLedger
  readonly #start: LoadedConfig
  readonly #workers = new Set<WorkerHandle>()
  readonly #stopping = new AbortController()
  /** What a worker begins with from now on. */
  #inForce: LoadedConfig
  #adminAddress: Listeners['admin']
  #listeners: Listeners | undefined
  #lastReload: ReloadState | undefined
  #needsRestart: readonly string[] = []
  /** Whether workers listen on sockets of systemd. */
  #hasPassed = false
  #onFault: (error: Error) => void = () => {}
  #leaving = false
  #forked = 0
  #places: readonly Promise<void>[] = []
  #drained: Promise<void> | undefined

  constructor(loaded: LoadedConfig, options: SupervisorOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#pause = options.pause ?? pause
    this.#ledger = new LocalLedger(this.#now)
    this.#start = loaded
    this.#inForce = loaded
    // Every place may be waiting for its next worker.
    setMaxListeners(0, this.#stopping.signal)
    this.fault = new Promise(resolve => {
      this.#onFault = resolve
    })
    this.metrics = new FleetMetrics({
      configHash: () => this.#inForce.hash,
      build: options.build,
      process: options.processMetrics,
      pause: this.#pause,
    })
    const ready = (): boolean => !this.#leaving && this.#serving.length > 0
    const wallClock = options.wallClock ?? Date.now
    const startedMs = wallClock()
    const control: Control = {
      ready,
      facts: () => {
        const { config, hash: configHash } = this.#inForce
        const [lastReload, needsRestart] = [this.#lastReload, this.#needsRestart]
        const listeners = this.#listeners ?? configuredListeners(this.#start.config)
        return { build: options.build, startedMs, config, configHash, listeners, lastReload, needsRestart }
      },
      metrics: () => this.metrics.reports(),
      status: () => this.status(),
      closeTunnel: id => this.closeTunnel(id),
    }
    this.#admin = new AdminServer(control, () => this.#inForce.config.listen.adminHosts, wallClock)
  }

  /** The first worker alone, as what it can not do the others can not do either; and then all others at once. */
  async start(): Promise<Listeners> {
    const { proxy, admin } = bindables(this.#start.config.listen, this.#options.passedSockets)
    await removeStaleSockets([...proxy, admin])
    this.#hasPassed = proxy.some(address => 'fd' in address)
    this.#adminAddress = admin && (await this.#admin.listen(admin))
    const first = this.#fork()
    let bound: Listeners
    try {
      bound = await this.#bringUp(first)
    } catch (error) {
      const isTold = first.alive
      first.kill()
      const exit = await first.exited
      await this.#admin.close()
      this.metrics.close()
      if (isTold) throw error
      throw new Error(exit.error ?? `a worker ended with ${exit.signal ?? exit.code}`, { cause: error })
    }
    const others = Array.from({ length: this.#options.workers - 1 }, () => this.#fork())
    const up = others.map(worker => this.#bringUpOrKill(worker))
    this.#places = [first, ...others].map(worker => this.#keepUp(worker))
    await Promise.all(up)
    this.#listeners = bound
    return bound
  }

  /** One worker before all others: what it can not apply has never been in force. Another that can not is replaced. */
  async reload(loaded: LoadedConfig): Promise<Reloaded> {
    const needsRestart = restartKeys(this.#start.config, loaded.config)
    let closedTunnels = 0
    const done = new Set<WorkerHandle>()
    for (let first = this.#serving[0]; first !== undefined && done.size === 0; first = this.#serving[0]) {
      try {
        closedTunnels += (await first.reload(loaded)).closedTunnels
        done.add(first)
      } catch (error) {
        if (first.alive && first.serving) throw error
      }
    }
    // From here on whoever starts to serve does it under this one.
    this.#inForce = likeStarted(this.#start, this.#inForce, loaded)
    this.#needsRestart = needsRestart
    const others = this.#serving.filter(worker => !done.has(worker))
    const counts = await Promise.all(
      others.map(async worker => {
        try {
          return (await worker.reload(loaded)).closedTunnels
        } catch (error) {
          worker.kill(error)
          return 0
        }
      }),
    )
    for (const count of counts) closedTunnels += count
    return { needsRestart, closedTunnels }
  }

  reloaded(state: ReloadState): void {
    this.#lastReload = state
    this.metrics.configReloaded(state.result)
  }

  /** Of those that answer. */
  async status(): Promise<readonly WorkerStatus[]> {
    const asked = this.#serving.map(worker => worker.status().catch(() => undefined))
    return (await Promise.all(asked)).filter(status => status !== undefined)
  }

  async closeTunnel(id: string): Promise<boolean> {
    const asked = this.#serving.map(worker => worker.closeTunnel(id).catch(() => false))
    return (await Promise.all(asked)).includes(true)
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain()
    return this.#drained
  }

  async #drain(): Promise<void> {
    this.#leaving = true
    const { delayMs, drainMs } = this.#inForce.config.shutdown
    const ended = new AbortController()
    // Until then all goes on, and a worker that dies is replaced.
    if (delayMs > 0 && this.#serving.length > 0) await this.#pause(delayMs, ended.signal)
    this.#stopping.abort()
    for (const worker of this.#workers) {
      if (worker.serving) worker.drain()
      else worker.kill()
    }
    const late = this.#pause(drainMs + GRACE_MS, ended.signal).then(() => {
      if (!ended.signal.aborted) for (const worker of this.#workers) worker.kill('it did not end in time')
    })
    await Promise.all(this.#places)
    ended.abort()
    await late
    await this.#admin.close()
    this.metrics.close()
  }

  get #serving(): WorkerHandle[] {
    return [...this.#workers].filter(({ serving }) => serving)
  }

  #fork(): WorkerHandle {
    const { fork, passLog, passError } = this.#options
    this.#forked += 1
    const failedAttempt = (from: WorkerHandle, source: string): void => {
      for (const worker of this.#workers) if (worker !== from) worker.countFailedAttempt(source)
    }
    const owner = { passLog, passError, ledger: this.#ledger, failedAttempt }
    const worker = new WorkerHandle(this.#forked, fork(), owner, this.#now())
    this.#workers.add(worker)
    this.metrics.begun(worker)
    void worker.exited.then(() => {
      this.#workers.delete(worker)
      this.metrics.ended(worker)
      if (this.#workers.size === 0 && this.#hasPassed) this.#onFault(new Error(LOST_SOCKETS))
    })
    return worker
  }

  /** Rejects when it can not serve, or ends before it does. */
  async #bringUp(worker: WorkerHandle): Promise<Listeners> {
    const { logger, startId, build, passedSockets } = this.#options
    let loaded = this.#inForce
    const admin = this.#adminAddress
    const bound = await worker.start({
      loaded,
      startId,
      build,
      passedSockets,
      number: worker.number,
      admin,
    })
    while (loaded !== this.#inForce) {
      loaded = this.#inForce
      await worker.reload(loaded)
    }
    worker.serving = true
    logger.info({ event: 'worker_started', worker: worker.number, worker_pid: worker.pid })
    return bound
  }

  async #bringUpOrKill(worker: WorkerHandle): Promise<void> {
    try {
      await this.#bringUp(worker)
    } catch (error) {
      worker.kill(error)
    }
  }

  /** Sees to it that there is a worker in this place until the end; resolves when the last one is gone. */
  async #keepUp(first: WorkerHandle): Promise<void> {
    const { signal } = this.#stopping
    const backoff = new Backoff()
    for (let worker = first; ; ) {
      const exit = await worker.exited
      const restartMs = signal.aborted ? undefined : backoff.delayMs(this.#now() - worker.startedAt)
      this.#logExit(worker, exit, restartMs)
      if (restartMs !== undefined) await this.#pause(restartMs, signal)
      if (signal.aborted) return
      worker = this.#fork()
      void this.#bringUpOrKill(worker)
    }
  }

  #logExit({ number, pid }: WorkerHandle, exit: WorkerExit, restartMs: number | undefined): void {
    if (restartMs === undefined && exit.code === 0) return
    const level = restartMs === undefined ? 'warn' : 'error'
    this.#options.logger[level]({
      event: 'worker_exited',
      worker: number,
      worker_pid: pid,
      ...exit,
      restart_ms: restartMs,
    })
  }
}
