/**
 * Connections on their way to a worker that does not accept them itself.
 *
 * node:cluster keeps a connection that it hands on until the worker has said that it has it. When the worker dies before
 * that, it forgets the connection and leaves it open; and so it does when the worker refuses it, as it is draining, and
 * no other is left to be asked. The client would wait for an answer for ever, where a closed connection tells it to try
 * again.
 */
import type { ChildProcess } from 'node:child_process'

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
