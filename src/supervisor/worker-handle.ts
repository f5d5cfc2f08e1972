/** A worker as its supervisor sees it: the process, what is said to it, and how far it has come. */
import type { LoadedConfig } from '../run/runtime.js'
/** A worker as its supervisor sees it: the process, what is said to it, what it writes, and how far it has come. */
import type { Readable } from 'node:stream'
import type { LocalLedger } from '../limits/ledger.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { Reloaded } from '../run/proxy.js'
import { Conversation, type SupervisorCalls, type WorkerCalls, type WorkerStart } from './messages.js'
import { OpenExchanges } from './open-exchanges.js'
import { Holdings } from './shared-ledger.js'
import type { Purge } from '../upstream/cache/store.js'
import type { Beating } from './waits.js'
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
  /** What it reported last of what it has counted. */
  lastReport: MetricsReport | undefined
  /** As far as its log says. */
  readonly exchanges = new OpenExchanges()
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

  /** False once its end is known. */
  get alive(): boolean {
    return !this.#gone.signal.aborted
  }

  /** How many tunnels it has, or had when it ended: each is reserved here. */
  get tunnels(): number {
    return this.#holdings.tunnels
  }

  /** Aborted then. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** To be called when it is ready. */
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

const LINE_FEED = 0x0a
/** No line of a log comes near it; what is longer is passed on in parts, rather than kept. */
const MAX_LINE_BYTES = 1024 * 1024

/**
 * Passes on what a worker writes in whole lines: of two that write to one place, neither may write into the middle of the
 * other's line. What is of several lines stays together.
 * @param write gets whole lines, one or more, with their line ends; a last line without one gets it
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
  // Its end is all that there is to know.
  stream.on('error', () => {})
}
