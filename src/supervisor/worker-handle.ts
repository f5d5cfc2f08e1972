/** A worker as seen by its supervisor: the process, the calls to it, its output, and its state. */
import type { LoadedConfig } from '../run/runtime.js'
import type { Readable } from 'node:stream'
import type { LocalLedger } from '../limits/ledger.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { Reloaded } from '../run/proxy.js'
import { Conversation, type SupervisorCalls, type WorkerCalls, type WorkerStart } from './messages.js'
import { OpenExchanges } from './open-exchanges.js'
import { WorkerReservations } from './shared-ledger.js'
import type { Purge } from '../upstream/cache/store.js'
import type { Beating } from './waits.js'
import type { WorkerExit, WorkerProcess } from './worker-process.js'

export interface WorkerOwner {
  /** Receive whole lines of its log, and of its standard error. */
  passLog(lines: string): void
  passError(lines: string): void
  /** Where the reservations of all workers are counted. */
  readonly ledger: LocalLedger
  /** The worker received wrong credentials from this source. */
  failedAttempt(worker: WorkerHandle, source: string): void
}

export class WorkerHandle implements Beating {
  readonly number: number
  readonly startedAt: number
  /** Whether it serves clients, with the current configuration. */
  serving = false
  answering = true
  /** The last metrics that it reported. */
  lastReport: MetricsReport | undefined
  /** Its open exchanges, according to its log. */
  readonly exchanges = new OpenExchanges()
  /** Resolves when the worker accepts calls; rejects when it ends before. */
  readonly ready: Promise<void>
  readonly exited: Promise<WorkerExit>
  readonly #process: WorkerProcess
  readonly #worker: Conversation<WorkerCalls, SupervisorCalls>
  readonly #reservations: WorkerReservations
  #onReady: () => void = () => {}
  #onGone: (error: Error) => void = () => {}
  readonly #gone = new AbortController()
  #fault: string | undefined

  /** @param startedAt milliseconds, monotonic */
  constructor(number: number, child: WorkerProcess, owner: WorkerOwner, startedAt: number) {
    this.number = number
    this.startedAt = startedAt
    this.#process = child
    this.#reservations = new WorkerReservations(owner.ledger)
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
      acquire: ({ key, limit }) => this.#reservations.acquire(key, limit),
      release: key => {
        this.#reservations.release(key)
        return undefined
      },
      take: ({ key, rate, burst }) => owner.ledger.take(key, rate, burst),
      spend: ({ key, bytes, limit }) => owner.ledger.spend(key, bytes, limit),
    })
    child.onMessage(messages => this.#worker.receive(messages))
    passWholeLines(child.stdout, lines => {
      this.exchanges.read(lines)
      owner.passLog(lines)
    })
    passWholeLines(child.stderr, lines => owner.passError(lines))
    this.exited = child.exited.then(exit => this.#ended(exit))
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** False once it is known to have ended. */
  get alive(): boolean {
    return !this.#gone.signal.aborted
  }

  /** The number of its tunnels, or how many it had when it ended: each has a reservation. */
  get tunnels(): number {
    return this.#reservations.tunnels
  }

  /** Aborts when the worker has ended. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** Must be called only when the worker is ready. */
  start(start: WorkerStart): Promise<Listeners> {
    this.exchanges.serves(start.loaded)
    return this.#worker.ask('start', { ...start, loaded: plain(start.loaded) })
  }

  reload(loaded: LoadedConfig): Promise<Reloaded> {
    this.exchanges.serves(loaded)
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

  purgeCache(what: Purge): Promise<number | null> {
    return this.#worker.ask('purgeCache', what)
  }

  /** Requests its metrics. Never rejects. */
  async report(): Promise<void> {
    if (!this.serving) return
    try {
      this.lastReport = await this.#worker.ask('metrics', undefined)
    } catch {
      // The worker has ended.
    }
  }

  drain(): void {
    // No answer is needed: the worker ends.
    this.#worker.tell('drain', undefined)
  }

  countFailedAttempt(source: string): void {
    this.#worker.tell('failedAttempt', source)
  }

  /** Kills the process; the fault is logged as the reason of its end. */
  kill(fault?: unknown): void {
    if (fault !== undefined) this.#fault ??= fault instanceof Error ? fault.message : String(fault)
    this.serving = false
    this.#process.kill()
  }

  #ended(exit: WorkerExit): WorkerExit {
    this.#gone.abort()
    this.serving = false
    this.#worker.end()
    this.#reservations.releaseAll()
    this.#onGone(new Error('the worker has ended'))
    return { ...exit, error: exit.error ?? this.#fault }
  }
}

/** The data of a loaded configuration, without its functions, which the channel cannot carry. */
function plain({ config, hash, fromFile, files, folder }: LoadedConfig): LoadedConfig {
  return { config, hash, fromFile, files, folder }
}

const LINE_FEED = 0x0a
/** Far longer than any log line; a longer line is passed on in parts and not kept. */
const MAX_LINE_BYTES = 1024 * 1024

/**
 * Passes on the output of a worker in whole lines, so that no process writes into the middle of another's line. Lines
 * that were written together stay together.
 * @param write receives one or more whole lines with their line ends; one is added to a last line without it
 */
export function passWholeLines(stream: Readable, write: (lines: string) => void): void {
  let rest: Buffer[] = []
  let restBytes = 0
  const pass = (...last: Buffer[]): void => {
    const text = Buffer.concat([...rest, ...last]).toString('utf8')
    rest = []
    restBytes = 0
    if (text !== '') write(text.endsWith('\n') ? text : `${text}\n`)
  }
  stream.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(LINE_FEED) + 1
    if (end > 0) pass(chunk.subarray(0, end))
    if (end === chunk.length) return
    rest.push(chunk.subarray(end))
    restBytes += chunk.length - end
    if (restBytes > MAX_LINE_BYTES) pass()
  })
  stream.on('end', () => pass())
  // The end of the stream is handled by the exit of the process.
  stream.on('error', () => {})
}
