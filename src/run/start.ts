/** Starts `sluice run` as one proxy in this process, or as a supervisor of several worker processes. */
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

/** The parts of the process that a start uses. */
export interface StartHost {
  readonly io: Io
  readonly startId: string
  readonly build: BuildInfo
  /** The id of this process. */
  readonly pid: number
  /** Listening sockets from systemd. */
  readonly passedSockets: PassedSockets
  /** The number of files that the process may have open; undefined when unknown. */
  openFilesLimit(): number | undefined
  /** Environment variables. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Starts another worker process. */
  fork(): WorkerProcess
}

/** The number of processes that serve clients. */
export function countWorkers({ workers }: Config): number {
  return workers === 'auto' ? availableParallelism() : workers
}

/**
 * @param interrupt aborts a start in progress
 * @throws the errors of startProxy and startSupervisor
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
