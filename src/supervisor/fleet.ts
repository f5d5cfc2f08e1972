/**
 * The workers, each in a place of its own: there is one in every place until the end, and another takes the place of one
 * that dies.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { FailedAttempts } from '../clients/failed-attempts.js'
import type { LocalLedger } from '../limits/ledger.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { WorkerPlace } from '../run/proxy.js'
import { Backoff, isSettledWithin, keepBeating, type Pause } from './waits.js'
import type { WorkerStart } from './messages.js'
import { WorkerHandle } from './worker-handle.js'
import type { WorkerExit, WorkerProcess } from './worker-process.js'

export interface FleetOptions {
  readonly logger: Logger
  readonly fork: () => WorkerProcess
  /** Get whole lines that a worker wrote to its standard output, and to its standard error. */
  readonly passLog: (lines: string) => void
  readonly passError: (lines: string) => void
  readonly pause: Pause
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  readonly ledger: LocalLedger
  /** What is the same for all that begin from now on; `loaded` is the configuration in force. */
  readonly start: () => Omit<WorkerStart, 'place' | 'failures'>
  readonly place: () => Omit<WorkerPlace, 'number' | 'bound'>
  /** Called when the first worker is about to listen. @throws why it may not */
  readonly probe: () => Promise<void>
  readonly begun: (worker: WorkerHandle) => void
  /** Called when a worker begins in the place of one that has ended. */
  readonly restarted: () => void
  readonly ended: (worker: WorkerHandle) => void
}

/** Seconds in which a worker has to serve. */
const START_SECONDS = 30

/** The first worker ended before it served, and has not told why. */
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
  /** What the first worker listens on. */
  #bound: Listeners | undefined
  #places: readonly Promise<void>[] = []

  constructor(options: FleetOptions) {
    this.#options = options
    this.#attempts = new FailedAttempts(options.now)
    // Every place may be waiting for its next worker.
    setMaxListeners(0, this.#stopping.signal)
  }

  /** No process is left. */
  get isEmpty(): boolean {
    return this.#workers.size === 0
  }

  /** Those that serve, and are known to do anything at all. */
  get answering(): WorkerHandle[] {
    return this.serving.filter(({ answering }) => answering)
  }

  get serving(): WorkerHandle[] {
    return [...this.#workers].filter(({ serving }) => serving)
  }

  /**
   * The first worker alone, as what it cannot do the others cannot do either; and then all others at once.
   *
   * @param count how many
   * @param interrupt ends those that do not serve by then, whatever they do; the others are to be stopped
   * @returns what the first listens on
   * @throws what it could not do, or WorkerEnded, when it was interrupted before it served too; no process is left then
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
      const isTold = first.alive
      first.kill()
      const exit = await first.exited
      if (isTold) throw error
      throw new WorkerEnded(exit)
    }
    const others = this.#stopping.signal.aborted ? [] : Array.from({ length: count - 1 }, () => this.#fork())
    const up = others.map(worker => this.#bringUpOrKill(worker))
    this.#places = [first, ...others].map(worker => this.#keepUp(worker))
    await Promise.all(up)
    return bound
  }

  /** Nobody is replaced from here on: ends those that serve in order, and all others at once. */
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

  /** Resolves when the last one is gone, after a stop. */
  async gone(): Promise<void> {
    await Promise.all(this.#places)
  }

  #fork(): WorkerHandle {
    const { fork, passLog, passError, ledger, begun, ended, now } = this.#options
    this.#forked += 1
    const failedAttempt = (from: WorkerHandle, source: string): void => {
      this.#attempts.count(source)
      for (const worker of this.#workers) if (worker !== from) worker.countFailedAttempt(source)
    }
    const owner = { passLog, passError, ledger, failedAttempt }
    const worker = new WorkerHandle(this.#forked, fork(), owner, now())
    this.#workers.add(worker)
    begun(worker)
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

  /** Rejects when it cannot serve, or ends before it does. */
  async #bringUp(worker: WorkerHandle): Promise<Listeners> {
    const { logger, start, place, pause } = this.#options
    // What it is told before it listens is lost.
    await worker.ready
    const begin = start()
    const { number } = worker
    const failures = this.#attempts.recent()
    const bound = await worker.start({
      ...begin,
      failures,
      place: { ...place(), number, bound: this.#bound },
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

  /** Ends it when it takes too long. */
  async #inTime(worker: WorkerHandle, up: Promise<Listeners>): Promise<Listeners> {
    const isInTime = await isSettledWithin(up, START_SECONDS, this.#options.pause)
    if (!isInTime) worker.kill(`it did not serve within ${START_SECONDS} s`)
    return up
  }

  /** Sees to it that there is a worker in this place until the end; resolves when the last one is gone. */
  async #keepUp(first: WorkerHandle): Promise<void> {
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
