import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import type { Config } from '../config/schema.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { ReloadState, WorkerStatus } from '../observe/worker-status.js'

/** What is the same for all workers. */
export interface ProgramFacts {
  readonly build: BuildInfo | undefined
  /** Milliseconds since the epoch. */
  readonly startedMs: number
  readonly config: Config
  readonly configHash: string
  readonly listeners: {
    readonly proxy: readonly ListenAddress[]
    readonly tls: TcpAddress | undefined
    readonly admin: ListenAddress | undefined
  }
  /** The last reload, when there was one. */
  readonly lastReload: ReloadState | undefined
  /** Keys whose change has no effect before a restart. */
  readonly needsRestart: readonly string[]
}

/** What the admin listener may know of the rest, and do to it. */
export interface Control {
  /** Whether new requests are welcome: false once the proxy is draining, and while no process serves. */
  ready(): boolean
  facts(): ProgramFacts
  /** The metrics, one report for each worker. */
  metrics(): Promise<readonly MetricsReport[]>
  /** What the status page shows, one report for each worker. */
  status(): Promise<readonly WorkerStatus[]>
  /**
   * Ends a tunnel.
   * @param id of its exchange
   * @returns false when no worker has it, or not any more
   */
  closeTunnel(id: string): Promise<boolean>
}
