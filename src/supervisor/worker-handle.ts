/** A worker as its supervisor sees it: the process, what is said to it, and how far it has come. */
import type { LoadedConfig } from '../run/runtime.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { Reloaded } from '../run/proxy.js'
import type { LocalLedger } from '../limits/ledger.js'
import { Conversation } from './conversation.js'
import type { Beating } from './waits.js'
import { Holdings } from './shared-ledger.js'
import type { SupervisorCalls, WorkerCalls, WorkerStart } from './messages.js'
import { passWholeLines } from './whole-lines.js'
import type { WorkerExit, WorkerProcess } from './worker-process.js'

export interface WorkerOwner {
  /** Whole lines of its log, and of its standard error. */
  passLog(lines: string): void
  passError(lines: string): void
  /** The books that the limits of all workers are kept in. */
  readonly ledger: LocalLedger
  /** Wrong credentials came to it from this source. */
  failedAttempt(worker: WorkerHandle, source: string): void
}

export class WorkerHandle implements Beating {
  readonly number: number
  readonly startedAt: number
  /** Whether it serves clients, under the configuration in force. */
  serving = false
  answering = true
  /** What it told last of what it has counted. */
  lastReport: MetricsReport | undefined
  /** Resolves when it can be told something; rejects when it ends before. */
  readonly ready: Promise<void>
  readonly exited: Promise<WorkerExit>
  readonly #process: WorkerProcess
  readonly #worker: Conversation<WorkerCalls, SupervisorCalls>
  readonly #holdings: Holdings
  #onReady: () => void = () => {}
  #onGone: (error: Error) => void = () => {}
  readonly #gone = new AbortController()
  #fault: string | undefined

  /** @param startedAt milliseconds, monotonic */
  constructor(number: number, child: WorkerProcess, owner: WorkerOwner, startedAt: number) {
    this.number = number
    this.startedAt = startedAt
    this.#process = child
    this.#holdings = new Holdings(owner.ledger)
    this.ready = new Promise((resolve, reject) => {
      this.#onReady = resolve
      this.#onGone = reject
    })
    this.ready.catch(() => {})
    this.#worker = new Conversation<WorkerCalls, SupervisorCalls>(child, {
      ready: () => {
        this.#onReady()
        return undefined
      },
      failedAttempt: source => {
        owner.failedAttempt(this, source)
        return undefined
      },
      acquire: ({ key, limit }) => this.#holdings.acquire(key, limit),
      release: key => {
        this.#holdings.release(key)
        return undefined
      },
      take: ({ key, rate, burst }) => owner.ledger.take(key, rate, burst),
      spend: ({ key, bytes, limit }) => owner.ledger.spend(key, bytes, limit),
    })
    child.onMessage(messages => this.#worker.receive(messages))
    passWholeLines(child.stdout, lines => owner.passLog(lines))
    passWholeLines(child.stderr, lines => owner.passError(lines))
    this.exited = child.exited.then(exit => this.#ended(exit))
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** False once its end is known. */
  get alive(): boolean {
    return !this.#gone.signal.aborted
  }

  /** Aborted then. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** To be called when it is ready. */
  start(start: WorkerStart): Promise<Listeners> {
    return this.#worker.ask('start', { ...start, loaded: plain(start.loaded) })
  }

  reload(loaded: LoadedConfig): Promise<Reloaded> {
    return this.#worker.ask('reload', plain(loaded))
  }

  beat(): Promise<void> {
    return this.#worker.ask('beat', undefined)
  }

  status(): Promise<WorkerStatus> {
    return this.#worker.ask('status', undefined)
  }

  /** @param id of an exchange */
  closeTunnel(id: string): Promise<boolean> {
    return this.#worker.ask('closeTunnel', id)
  }

  /** Has it tell what it has counted. Never rejects. */
  async report(): Promise<void> {
    if (!this.serving) return
    try {
      this.lastReport = await this.#worker.ask('metrics', undefined)
    } catch {
      // It is gone.
    }
  }

  drain(): void {
    // Its answer is its end.
    this.#worker.tell('drain', undefined)
  }

  countFailedAttempt(source: string): void {
    this.#worker.tell('failedAttempt', source)
  }

  /** Ends it at once; what it could not do goes into the log with its end. */
  kill(fault?: unknown): void {
    if (fault !== undefined) this.#fault ??= fault instanceof Error ? fault.message : String(fault)
    this.serving = false
    this.#process.kill()
  }

  #ended(exit: WorkerExit): WorkerExit {
    this.#gone.abort()
    this.serving = false
    this.#worker.end()
    this.#holdings.releaseAll()
    this.#onGone(new Error('the worker has ended'))
    return { ...exit, error: exit.error ?? this.#fault }
  }
}

/** What the channel can carry: of a loaded configuration the data alone, and no function. */
function plain({ config, hash, fromFile, files, folder }: LoadedConfig): LoadedConfig {
  return { config, hash, fromFile, files, folder }
}
