/**
 * The workers. Each occupies a slot: every slot has a worker until the end, and a worker that dies is replaced.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { FailedAttempts } from '../clients/failed-attempts.js'
import type { LocalLedger } from '../limits/ledger.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { WorkerContext } from '../run/proxy.js'
import { Backoff, isSettledWithin, keepBeating, type Pause } from './waits.js'
import type { WorkerStart } from './messages.js'
import { WorkerHandle } from './worker-handle.js'
import type { WorkerExit, WorkerProcess } from './worker-process.js'

export interface FleetOptions {
  readonly logger: Logger
  readonly fork: () => WorkerProcess
  /** Receive whole lines that a worker wrote to its standard output, and to its standard error. */
  readonly passLog: (lines: string) => void
  readonly passError: (lines: string) => void
  readonly pause: Pause
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  readonly ledger: LocalLedger
  /** The data common to all workers that start from now on; `loaded` is the current configuration. */
  readonly start: () => Omit<WorkerStart, 'context' | 'failures'>
  readonly context: () => Omit<WorkerContext, 'number' | 'bound'>
  /** Called before the first worker binds its addresses. @throws when they are not available */
  readonly probe: () => Promise<void>
  readonly started: (worker: WorkerHandle) => void
  /** Called when a worker replaces one that has ended. */
  readonly restarted: () => void
  readonly ended: (worker: WorkerHandle) => void
}

/** Seconds within which a worker must serve. */
const START_SECONDS = 30

/** The first worker ended before it served, without reporting an error. */
export class WorkerEnded extends Error {
  override readonly name = 'WorkerEnded'
  /** The signal that ended it. */
  readonly signal: string | undefined

  constructor({ error, signal, code }: WorkerExit) {
    super(`the first worker ended before it served: ${error ?? signal ?? `exit code ${code}`}`)
    this.signal = signal
  }
}

export class Fleet {
  readonly #options: FleetOptions
  readonly #workers = new Set<WorkerHandle>()
  readonly #attempts: FailedAttempts
  readonly #stopping = new AbortController()
  #forked = 0
  /** The listeners of the first worker. */
  #bound: Listeners | undefined
  #slots: readonly Promise<void>[] = []

  constructor(options: FleetOptions) {
    this.#options = options
    this.#attempts = new FailedAttempts(options.now)
    // Every slot may be waiting for its next worker.
    setMaxListeners(0, this.#stopping.signal)
  }

  /** No worker process is left. */
  get isEmpty(): boolean {
    return this.#workers.size === 0
  }

  /** The workers that serve and respond. */
  get answering(): WorkerHandle[] {
    return this.serving.filter(({ answering }) => answering)
  }

  get serving(): WorkerHandle[] {
    return [...this.#workers].filter(({ serving }) => serving)
  }

  /**
   * Starts the first worker alone, because errors of its start would occur in the others as well, and then all others
   * in parallel.
   *
   * @param count the number of workers
   * @param interrupt kills the workers that do not serve yet; the others must be stopped
   * @returns the listeners of the first worker
   * @throws the error of the first worker, or WorkerEnded, also when interrupted before it served; no process is left
   */
  async start(count: number, interrupt: AbortSignal): Promise<Listeners> {
    const end = (): void => {
      this.#stopping.abort()
      for (const worker of this.#workers) if (!worker.serving) worker.kill()
    }
    interrupt.addEventListener('abort', end)
    try {
      if (interrupt.aborted) throw new WorkerEnded({ error: 'interrupted' })
      return await this.#start(count)
    } finally {
      interrupt.removeEventListener('abort', end)
    }
  }

  async #start(count: number): Promise<Listeners> {
    const first = this.#fork()
    let bound: Listeners
    try {
      bound = this.#bound = await this.#inTime(first, this.#bringUpFirst(first))
    } catch (error) {
      const isReported = first.alive
      first.kill()
      const exit = await first.exited
      if (isReported) throw error
      throw new WorkerEnded(exit)
    }
    const others = this.#stopping.signal.aborted ? [] : Array.from({ length: count - 1 }, () => this.#fork())
    const up = others.map(worker => this.#bringUpOrKill(worker))
    this.#slots = [first, ...others].map(worker => this.#occupySlot(worker))
    await Promise.all(up)
    return bound
  }

  /** No worker is replaced from here on: drains the workers that serve, and kills the others. */
  stop(): void {
    this.#stopping.abort()
    for (const worker of this.#workers) {
      if (worker.serving) worker.drain()
      else worker.kill()
    }
  }

  kill(fault?: string): void {
    for (const worker of this.#workers) worker.kill(fault)
  }

  /** Resolves when the last worker has ended, after a stop. */
  async ended(): Promise<void> {
    await Promise.all(this.#slots)
  }

  #fork(): WorkerHandle {
    const { fork, passLog, passError, ledger, started, ended, now } = this.#options
    this.#forked += 1
    const failedAttempt = (from: WorkerHandle, source: string): void => {
      this.#attempts.count(source)
      for (const worker of this.#workers) if (worker !== from) worker.countFailedAttempt(source)
    }
    const owner = { passLog, passError, ledger, failedAttempt }
    const worker = new WorkerHandle(this.#forked, fork(), owner, now())
    this.#workers.add(worker)
    started(worker)
    void worker.exited.then(() => {
      this.#workers.delete(worker)
      ended(worker)
    })
    return worker
  }

  async #bringUpFirst(first: WorkerHandle): Promise<Listeners> {
    await first.ready
    await this.#options.probe()
    return this.#bringUp(first)
  }

  /** Rejects when the worker cannot serve, or ends before it does. */
  async #bringUp(worker: WorkerHandle): Promise<Listeners> {
    const { logger, start, context, pause } = this.#options
    // Messages sent before the worker listens would be lost.
    await worker.ready
    const begin = start()
    const { number } = worker
    const failures = this.#attempts.recent()
    const bound = await worker.start({
      ...begin,
      failures,
      context: { ...context(), number, bound: this.#bound },
    })
    let { loaded } = begin
    while (loaded !== start().loaded) {
      loaded = start().loaded
      await worker.reload(loaded)
    }
    worker.serving = true
    void keepBeating(worker, pause, worker.gone)
    logger.info({ event: 'worker_started', worker: number, worker_pid: worker.pid })
    return bound
  }

  async #bringUpOrKill(worker: WorkerHandle): Promise<void> {
    try {
      await this.#inTime(worker, this.#bringUp(worker))
    } catch (error) {
      worker.kill(error)
    }
  }

  /** Kills a worker that takes too long. */
  async #inTime(worker: WorkerHandle, up: Promise<Listeners>): Promise<Listeners> {
    const isInTime = await isSettledWithin(up, START_SECONDS, this.#options.pause)
    if (!isInTime) worker.kill(`it did not serve within ${START_SECONDS} s`)
    return up
  }

  /** Replaces the worker of this slot whenever it ends, until the stop; resolves when the last one has ended. */
  async #occupySlot(first: WorkerHandle): Promise<void> {
    const { pause, now, restarted } = this.#options
    const { signal } = this.#stopping
    const backoff = new Backoff()
    for (let worker = first; ; ) {
      const exit = await worker.exited
      const restartMs = signal.aborted ? undefined : backoff.delayMs(now() - worker.startedAt)
      this.#logExit(worker, exit, restartMs)
      if (restartMs !== undefined) await pause(restartMs, signal)
      if (signal.aborted) return
      worker = this.#fork()
      restarted()
      void this.#bringUpOrKill(worker)
    }
  }

  #logExit(worker: WorkerHandle, exit: WorkerExit, restartMs: number | undefined): void {
    const { logger, wallClock } = this.#options
    const lost = worker.exchanges.end(wallClock())
    for (const exchange of lost) logger.info(exchange)
    if (restartMs === undefined && exit.code === 0) return
    const { number, pid, tunnels } = worker
    const level = restartMs === undefined ? 'warn' : 'error'
    logger[level]({
      event: 'worker_exited',
      worker: number,
      worker_pid: pid,
      ...exit,
      restart_ms: restartMs,
      exchanges: lost.length,
      tunnels,
    })
  }
}
