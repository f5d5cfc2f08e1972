/**
 * A worker: a proxy in a process of its own, controlled by the supervisor. It writes its log as JSON to standard
 * output, which the supervisor passes on.
 */
import { FailedAttempts } from '../clients/failed-attempts.js'
import { deepFreeze } from '../config/freeze.js'
import type { LoadedConfig } from '../run/runtime.js'
import { LimitedDescriptors } from '../limits/descriptors.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { MetricsReport } from '../observe/exposition.js'
import { atLevel, createLog, type Log } from '../observe/log.js'
import { createProcessMetrics } from '../observe/metrics.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import { type Reloaded, type RunningProxy, startProxy } from '../run/proxy.js'
import {
  Conversation,
  type Message,
  type Port,
  type SupervisorCalls,
  type WorkerCalls,
  type WorkerStart,
} from './messages.js'
import { RemoteLedger } from './shared-ledger.js'

/** The parts of the process that a worker uses. */
export interface WorkerHost extends Port {
  onMessage(listener: (messages: readonly Message[]) => void): void
  /** Registers a handler for uncaught exceptions. */
  onUncaught(report: (error: unknown) => void): void
  /** The id of this process. */
  readonly pid: number
  /** The number of files that the process may have open; undefined when unknown. */
  openFilesLimit(): number | undefined
  /** Environment variables. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Resolves when the worker was drained and can end. */
export function runWorker(host: WorkerHost): Promise<void> {
  return new Promise(resolve => {
    const worker = new Worker(host, resolve)
    host.onMessage(messages => worker.receive(messages))
    worker.ready()
  })
}

class Worker {
  readonly #host: WorkerHost
  readonly #supervisor: Conversation<SupervisorCalls, WorkerCalls>
  #attempts: FailedAttempts | undefined
  #running: { readonly proxy: RunningProxy; readonly log: Log } | undefined

  constructor(host: WorkerHost, ended: () => void) {
    this.#host = host
    this.#supervisor = new Conversation<SupervisorCalls, WorkerCalls>(host, {
      start: start => this.#start(start),
      reload: loaded => this.#reload(loaded),
      metrics: () => this.#metrics(),
      beat: () => undefined,
      status: () => this.#status(),
      closeTunnel: async id => (await this.#running?.proxy.closeTunnel(id)) ?? false,
      purgeCache: async what => (await this.#running?.proxy.purgeCache(what)) ?? null,
      drain: async () => {
        await this.#running?.proxy.drain()
        await this.#running?.log.flush()
        ended()
        return undefined
      },
      failedAttempt: source => {
        this.#attempts?.count(source)
        return undefined
      },
    })
  }

  ready(): void {
    this.#supervisor.tell('ready', undefined)
  }

  receive(messages: readonly Message[]): void {
    this.#supervisor.receive(messages)
  }

  async #start({
    loaded,
    startId,
    build,
    failures,
    passedSockets,
    context,
  }: WorkerStart): Promise<Listeners> {
    const log = createLog({ level: loaded.config.log.level, format: 'json', color: false })
    this.#host.onUncaught(error =>
      log.logger.fatal({ event: 'internal_error', err: error }, 'uncaught exception'),
    )
    const attempts = new FailedAttempts(
      () => performance.now(),
      source => this.#supervisor.tell('failedAttempt', source),
    )
    attempts.adopt(failures)
    // Failed attempts that are reported during the start must be counted.
    this.#attempts = attempts
    const proxy = await startProxy(deepFreeze(loaded), {
      logger: log.logger,
      lostLogLines: () => log.lostLines(),
      startId,
      pid: this.#host.pid,
      ...(build === undefined ? {} : { build }),
      processMetrics: createProcessMetrics(),
      ...(passedSockets === undefined ? {} : { passedSockets }),
      attempts,
      worker: context,
      descriptors: new LimitedDescriptors(this.#host.openFilesLimit, () => performance.now()),
      system: { environment: this.#host.environment },
      ledger: new RemoteLedger(this.#supervisor),
    })
    this.#running = { proxy, log }
    return { proxy: proxy.proxy, tls: proxy.tls, admin: proxy.admin }
  }

  async #reload(loaded: LoadedConfig): Promise<Reloaded> {
    if (this.#running === undefined) throw new TypeError('a worker that was not started')
    const { proxy, log } = this.#running
    return atLevel(log.logger, loaded.config.log.level, () => proxy.reload(deepFreeze(loaded)))
  }

  async #status(): Promise<WorkerStatus> {
    const [status] = (await this.#running?.proxy.status()) ?? []
    if (status === undefined) throw new TypeError('a worker that was not started')
    return status
  }

  async #metrics(): Promise<MetricsReport> {
    const [report] = (await this.#running?.proxy.metrics()) ?? []
    if (report === undefined) throw new TypeError('a worker that was not started')
    return report
  }
}
