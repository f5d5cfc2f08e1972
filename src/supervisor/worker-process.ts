/**
 * A worker as a process, by node:cluster.
 *
 * Of what workers do not bind themselves (see port-sharing) the supervisor accepts the connections and hands them to the
 * workers in turn. Where all of them accept from one socket (SCHED_NONE) less is done for each connection, but those that
 * are idle, or first, take as many as they like: the tunnels of one minute, which stay for hours, may then all be in one
 * process, and all that wait in it are lost with it.
 */
import cluster, { type Worker } from 'node:cluster'
import { Readable } from 'node:stream'
import type { Port } from './conversation.js'
import { HandedConnections } from './handed-connections.js'
import type { Message } from './messages.js'

/** How a process ended: by itself with a code, by a signal, or before it began. */
export interface WorkerExit {
  readonly code?: number | undefined
  readonly signal?: string | undefined
  readonly error?: string | undefined
}

export interface WorkerProcess extends Port {
  readonly pid: number | undefined
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves when it has ended and all that it wrote was read. */
  readonly exited: Promise<WorkerExit>
  onMessage(listener: (messages: readonly Message[]) => void): void
  /** Ends it at once. */
  kill(): void
}

/**
 * @param program the file of the program itself
 * @returns starts one process more
 */
export function createFork(program: string): () => WorkerProcess {
  const handed = new HandedConnections()
  return () => {
    cluster.schedulingPolicy = cluster.SCHED_RR
    cluster.setupPrimary({ exec: program, args: [], silent: true, serialization: 'advanced' })
    return new ClusterProcess(cluster.fork(), handed)
  }
}

/** Ends all there are at once; for the end of the process itself, which waits for nothing any more. */
export function killWorkers(): void {
  for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL')
}

class ClusterProcess implements WorkerProcess {
  readonly exited: Promise<WorkerExit>
  readonly #worker: Worker

  constructor(worker: Worker, handed: HandedConnections) {
    this.#worker = worker
    handed.watch(worker.process)
    this.exited = new Promise(resolve => {
      worker.on('error', (error: Error) => resolve({ error: error.message }))
      worker.process.on('close', (code, signal) =>
        resolve({ code: code ?? undefined, signal: signal ?? undefined }),
      )
    })
  }

  get pid(): number | undefined {
    return this.#worker.process.pid
  }

  // A process that could not be started has no streams.
  get stdout(): Readable {
    return this.#worker.process.stdout ?? Readable.from([])
  }

  get stderr(): Readable {
    return this.#worker.process.stderr ?? Readable.from([])
  }

  onMessage(listener: (messages: readonly Message[]) => void): void {
    this.#worker.on('message', listener)
  }

  send(messages: readonly Message[]): void {
    // That it can not be had any more is told by its end.
    if (this.#worker.isConnected()) this.#worker.process.send([...messages], () => {})
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL')
  }
}
