/**
 * A worker as a process, by node:cluster.
 *
 * Of what workers do not bind themselves (see port-sharing) the supervisor accepts the connections and hands them to the
 * workers in turn. Where all of them accept from one socket (SCHED_NONE) less is done for each connection, but those that
 * are idle, or first, take as many as they like: the tunnels of one minute, which stay for hours, may then all be in one
 * process, and all that wait in it are lost with it.
 */
import type { ChildProcess } from 'node:child_process'
import cluster, { type Worker } from 'node:cluster'
import { Readable } from 'node:stream'
import type { Message, Port } from './messages.js'

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
    // Its end shows that it can no longer be reached.
    if (this.#worker.isConnected()) this.#worker.process.send([...messages], () => {})
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL')
  }
}

/** What node:cluster hands on: a connection that has no object of net.Socket yet. */
interface Handle {
  /** Negative once it is closed. */
  readonly fd: number
  close(): void
}

/** Who was asked last to take a connection, and by which message. */
interface Asked {
  readonly worker: ChildProcess
  readonly seq: unknown
}

/**
 * Connections on their way to a worker that does not accept them itself.
 *
 * node:cluster keeps a connection that it hands on until the worker has said that it has it. When the worker dies before
 * that, it forgets the connection and leaves it open; and so it does when the worker refuses it, as it is draining, and
 * no other is left to be asked. The client would wait for an answer for ever, where a closed connection tells it to try
 * again.
 */
export class HandedConnections {
  readonly #handed = new Map<Handle, Asked>()

  /** Closes what is handed to this worker and does not arrive there, nor at another. */
  watch(worker: ChildProcess): void {
    const send = worker.send as (message: unknown, handle?: unknown, ...rest: unknown[]) => boolean
    worker.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
      if (isHandle(handle)) {
        // It was refused while this worker was busy, and waited for it. This one is about to refuse it as well.
        if (handle.fd < 0) return true
        for (const earlier of this.#handed.keys()) if (earlier.fd < 0) this.#handed.delete(earlier)
        this.#handed.set(handle, { worker, seq: member(message, 'seq') })
      }
      return send.call(worker, message, handle, ...rest)
    }
    // By now node:cluster has handed it to another worker, when there is one that waits for work.
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
