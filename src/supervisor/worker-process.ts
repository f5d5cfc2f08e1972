/**
 * A worker process, started by node:cluster.
 *
 * For addresses that workers do not bind themselves (see port-sharing), the supervisor accepts connections and passes
 * them to the workers in turn. If all workers accepted from one socket (SCHED_NONE), each connection would cost less,
 * but an idle worker, or the first one, would take as many as it can: the tunnels opened in one minute, which stay for
 * hours, could all be in one process, and all would be lost with it.
 */
import type { ChildProcess } from 'node:child_process'
import cluster, { type Worker } from 'node:cluster'
import { Readable } from 'node:stream'
import type { Message, Port } from './messages.js'

/** How a process ended: with an exit code, by a signal, or because it could not be started. */
export interface WorkerExit {
  readonly code?: number | undefined
  readonly signal?: string | undefined
  readonly error?: string | undefined
}

export interface WorkerProcess extends Port {
  readonly pid: number | undefined
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves when the process has ended and all of its output was read. */
  readonly exited: Promise<WorkerExit>
  onMessage(listener: (messages: readonly Message[]) => void): void
  /** Kills the process. */
  kill(): void
}

/**
 * @param program the file of the program itself
 * @returns a function that starts another process
 */
export function createFork(program: string): () => WorkerProcess {
  const handed = new HandedConnections()
  return () => {
    cluster.schedulingPolicy = cluster.SCHED_RR
    cluster.setupPrimary({ exec: program, args: [], silent: true, serialization: 'advanced' })
    return new ClusterProcess(cluster.fork(), handed)
  }
}

/** Kills all workers; for the exit of this process, in which nothing can be awaited. */
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
    // If the channel is closed, the process ends, which is reported otherwise.
    if (this.#worker.isConnected()) this.#worker.process.send([...messages], () => {})
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL')
  }
}

/** A connection that node:cluster passes on, before it has an object of net.Socket. */
interface Handle {
  /** Negative when the connection is closed. */
  readonly fd: number
  close(): void
}

/** The worker to which a connection was sent last, and the sequence number of that message. */
interface Asked {
  readonly worker: ChildProcess
  readonly seq: unknown
}

/**
 * Connections that are on their way to a worker.
 *
 * node:cluster keeps a connection that it passes on until the worker has acknowledged it. If the worker dies before
 * that, node:cluster forgets the connection and leaves it open; likewise if the worker refuses it, because it is
 * draining, and no other worker is left. The client would wait for a response for ever, whereas it can retry after the
 * connection was closed.
 */
export class HandedConnections {
  readonly #handed = new Map<Handle, Asked>()

  /** Closes connections that were sent to this worker and were accepted neither by it nor by another. */
  watch(worker: ChildProcess): void {
    const send = worker.send as (message: unknown, handle?: unknown, ...rest: unknown[]) => boolean
    worker.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
      if (isHandle(handle)) {
        // It was closed while it waited for this busy worker, which is about to refuse it as well.
        if (handle.fd < 0) return true
        for (const earlier of this.#handed.keys()) if (earlier.fd < 0) this.#handed.delete(earlier)
        this.#handed.set(handle, { worker, seq: member(message, 'seq') })
      }
      return send.call(worker, message, handle, ...rest)
    }
    // At this time node:cluster has already sent it to another worker, if one is free.
    worker.on('internalMessage', (reply: unknown) => {
      if (member(reply, 'accepted') !== false) return
      const ack = member(reply, 'ack')
      this.#close(asked => asked.worker === worker && asked.seq === ack)
    })
    worker.on('close', () => this.#close(asked => asked.worker === worker))
  }

  #close(which: (asked: Asked) => boolean): void {
    for (const [handle, asked] of this.#handed) {
      if (!which(asked)) continue
      this.#handed.delete(handle)
      if (handle.fd >= 0) handle.close()
    }
  }
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'fd' in value && 'close' in value
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
