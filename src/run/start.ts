/** Whether `sluice run` is one proxy in this process, or a supervisor of several in others. */
import { availableParallelism, platform } from 'node:os'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { LimitedDescriptors } from '../limits/descriptors.js'
import type { PassedSockets } from '../listener/bind.js'
import type { Log } from '../observe/log.js'
import { type BuildInfo, createProcessMetrics } from '../observe/metrics.js'
import { type RunningProxy, startProxy } from './proxy.js'
import { canReusePort } from '../supervisor/port-sharing.js'
import { startSupervisor } from '../supervisor/supervisor.js'
import type { WorkerProcess } from '../supervisor/worker-process.js'
import type { Io } from './io.js'

/** What the process gives to it. */
export interface StartHost {
  readonly io: Io
  readonly startId: string
  readonly build: BuildInfo
  /** Of this process. */
  readonly pid: number
  /** What systemd passed on. */
  readonly passedSockets: PassedSockets
  /** How many files the process may have open; undefined where that is not known. */
  openFilesLimit(): number | undefined
  /** Variables of the process. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Starts one worker process more. */
  fork(): WorkerProcess
}

/** How many processes serve clients. */
export function countWorkers({ workers }: Config): number {
  return workers === 'auto' ? availableParallelism() : workers
}

/**
 * @param interrupt ends a start that takes its time, or what of it is not done by then
 * @throws what startProxy and startSupervisor throw
 */
export function startProxies(
  loaded: Loaded,
  log: Log,
  host: StartHost,
  interrupt: AbortSignal,
): Promise<RunningProxy> {
  const count = countWorkers(loaded.config)
  const { startId, build, passedSockets, pid, openFilesLimit, environment } = host
  const shared = {
    logger: log.logger,
    lostLogLines: () => log.lostLines(),
    startId,
    build,
    processMetrics: createProcessMetrics(),
  }
  const descriptors = new LimitedDescriptors(openFilesLimit, () => performance.now())
  if (count === 1) {
    return startProxy(loaded, { ...shared, pid, passedSockets, descriptors, system: { environment } })
  }
  return startSupervisor(loaded, {
    ...shared,
    descriptors,
    workers: count,
    reusePort: canReusePort(platform(), build.node),
    passedSockets,
    fork: host.fork,
    interrupt,
    passLog: log.pass,
    passError: host.io.stderr,
  })
}
