/** A worker that is not a process: it does what the test says, and ends when it is told to. */
import { PassThrough } from 'node:stream'
import type { LoadedConfig } from '../../src/run/runtime.js'
import { workerStatus } from '../kit/fakes/worker-status.js'
import type { MetricsReport } from '../../src/observe/exposition.js'
import {
  Conversation,
  type SupervisorCalls,
  type WorkerCalls,
  type WorkerStart,
} from '../../src/supervisor/messages.js'
import type { Purge } from '../../src/upstream/cache/store.js'
import type { WorkerExit, WorkerProcess } from '../../src/supervisor/worker-process.js'

export interface Script {
  readonly onStart?: (start: WorkerStart) => Promise<void> | void
  readonly onReload?: (loaded: LoadedConfig) => Promise<number> | number
  readonly onMetrics?: () => Promise<MetricsReport> | MetricsReport
  /** @returns how many responses it has purged */
  readonly onPurge?: (what: Purge) => Promise<number> | number
  /** Whether it ends when it is drained. */
  readonly drains?: boolean
}

export class FakeWorker {
  readonly process: WorkerProcess
  readonly supervisor: Conversation<SupervisorCalls, WorkerCalls>
  readonly stdout = new PassThrough()
  readonly stderr = new PassThrough()
  /** The calls that it has received, in order. */
  readonly told: string[] = []
  started: WorkerStart | undefined
  /** The hash of its configuration. */
  hash: string | undefined
  exit: (exit: WorkerExit) => void = () => {}
  /** Ignores all messages, until it is killed. */
  frozen = false

  constructor(pid: number, { onStart, onReload, onMetrics, onPurge, drains = true }: Script = {}) {
    let toSupervisor: Parameters<WorkerProcess['onMessage']>[0] = () => {}
    this.supervisor = new Conversation<SupervisorCalls, WorkerCalls>(
      { send: messages => toSupervisor(structuredClone([...messages])) },
      {
        start: async start => {
          this.told.push('start')
          this.started = start
          await onStart?.(start)
          this.hash = start.loaded.hash
          return { proxy: start.loaded.config.listen.proxy, tls: undefined, admin: start.context.admin }
        },
        reload: async loaded => {
          this.told.push('reload')
          const closedTunnels = (await onReload?.(loaded)) ?? 0
          this.hash = loaded.hash
          return { needsRestart: [], closedTunnels }
        },
        metrics: () => onMetrics?.() ?? [],
        beat: () => undefined,
        status: () =>
          workerStatus({
            worker: this.started?.context.number ?? 0,
            configHash: this.hash ?? '',
            tunnels: { open: 1, listed: [] },
          }),
        closeTunnel: id => id === `tunnel-${pid}`,
        purgeCache: what => onPurge?.(what) ?? null,
        drain: () => {
          this.told.push('drain')
          if (drains) this.exit({ code: 0 })
          return undefined
        },
        failedAttempt: source => {
          this.told.push(`failed ${source}`)
          return undefined
        },
      },
    )
    const exited = new Promise<WorkerExit>(resolve => {
      this.exit = resolve
    })
    this.process = {
      pid,
      stdout: this.stdout,
      stderr: this.stderr,
      exited,
      onMessage: listener => {
        toSupervisor = listener
      },
      send: messages => {
        if (!this.frozen) this.supervisor.receive(structuredClone([...messages]))
      },
      kill: () => {
        this.told.push('kill')
        this.exit({ signal: 'SIGKILL' })
      },
    }
    this.supervisor.ask('ready', undefined).catch(() => {})
  }
}
