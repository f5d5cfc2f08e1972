/**
 * What the supervisor and its workers say to each other. All of it is plain data, which the structured clone of the
 * channel between processes takes as it is.
 */
import type { RecentFailures } from '../clients/failed-attempts.js'
import type { LoadedConfig } from '../run/runtime.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { PassedSockets } from '../listener/passed-sockets.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { Reloaded, WorkerPlace } from '../run/proxy.js'

/** What a worker begins with. */
export interface WorkerStart {
  /** The configuration in force, whatever its file says by now. */
  readonly loaded: LoadedConfig
  /** The same in all workers. */
  readonly startId: string
  readonly build: BuildInfo | undefined
  /** Wrong credentials that other workers were sent, as far as they count still. */
  readonly failures: RecentFailures
  /** Open in the supervisor, which binds for its workers. */
  readonly passedSockets: PassedSockets | undefined
  readonly place: WorkerPlace
}

/** What is asked of the other side, by its name: what goes with it, and what comes back. */
export interface Call {
  readonly content: unknown
  readonly answer: unknown
}

/** What the supervisor asks of a worker. */
export type WorkerCalls = {
  /** First of all, and once; answered with what is listened on. */
  start: { content: WorkerStart; answer: Listeners }
  reload: { content: LoadedConfig; answer: Reloaded }
  /** What it has counted, its process included. */
  metrics: { content: undefined; answer: MetricsReport }
  /** Answered at once by a worker that does anything at all. */
  beat: { content: undefined; answer: undefined }
  /** How it does. */
  status: { content: undefined; answer: WorkerStatus }
  /** Ends the tunnel of an exchange; answered with whether there was one. */
  closeTunnel: { content: string; answer: boolean }
  /** Answered when everything is closed; the worker then ends. */
  drain: { content: undefined; answer: undefined }
  /** Another worker was sent wrong credentials from this source. */
  failedAttempt: { content: string; answer: undefined }
}

/** What a worker asks of the supervisor. */
export type SupervisorCalls = {
  /** It listens to what is said; before that nothing is kept for it. */
  ready: { content: undefined; answer: undefined }
  /** Wrong credentials came from this source; the other workers are to count them. */
  failedAttempt: { content: string; answer: undefined }
  // What limits are counted in, each as Ledger has it.
  acquire: { content: { readonly key: string; readonly limit: number }; answer: boolean }
  release: { content: string; answer: undefined }
  take: { content: { readonly key: string; readonly rate: number; readonly burst: number }; answer: number }
  spend: { content: { readonly key: string; readonly bytes: number; readonly limit: number }; answer: number }
}

/** One thing said; `id` is the asking side's own, and joins question and answer; 0 asks for none. */
export type Message =
  | { readonly type: 'call'; readonly id: number; readonly name: string; readonly content: unknown }
  | { readonly type: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failure'; readonly id: number; readonly name: string; readonly message: string }
