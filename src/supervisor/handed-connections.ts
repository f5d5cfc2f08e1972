/**
 * Connections on their way to a worker that does not accept them itself.
 *
 * node:cluster keeps a connection that it hands on until the worker has said that it has it. When the worker dies before
 * that, it forgets the connection and leaves it open: the client would wait for an answer for ever, where a closed
 * connection tells it to try again.
 */
import type { ChildProcess } from 'node:child_process'

/** What node:cluster hands on: a connection that has no object of net.Socket yet. */
interface Handle {
  /** Negative once it is closed. */
  readonly fd: number
  close(): void
}

/** Closes, when the worker ends, what was handed to it and has not arrived. */
export function closeHandedConnections(worker: ChildProcess): void {
  const handed = new Set<Handle>()
  const send = worker.send as (message: unknown, handle?: unknown, ...rest: unknown[]) => boolean
  worker.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
    if (isHandle(handle)) {
      for (const earlier of handed) if (earlier.fd < 0) handed.delete(earlier)
      handed.add(handle)
    }
    return send.call(worker, message, handle, ...rest)
  }
  worker.on('close', () => {
    for (const handle of handed) if (handle.fd >= 0) handle.close()
    handed.clear()
  })
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'fd' in value && 'close' in value
}
