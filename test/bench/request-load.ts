/**
 * Requests over connections that are kept alive where the other side keeps them: each connection sends the same prepared
 * bytes, waits for the whole answer, and sends them again.
 */
import { connect, type Socket } from 'node:net'
import { Latencies, type Load } from './sample.js'

const HEAD_END = Buffer.from('\r\n\r\n')
const MAX_RESPONSE_BYTES = 16 * 1024

export interface RequestPlan {
  /** The bytes that a connection sends; `connection` counts those open at once from 0. */
  readonly request: (connection: number) => Buffer
  /** Status codes of success. */
  readonly statuses: readonly number[]
  /** Content of each answer. */
  readonly responseBytes: number
}

export function requestLoad(
  port: number,
  { request, statuses, responseBytes }: RequestPlan,
  concurrency: number,
): Load {
  const latencies = new Latencies()
  const failures: string[] = []
  const sockets = new Set<Socket>()
  let done = 0
  let stopped = false

  const open = (connection: number): void => {
    const bytesToSend = request(connection)
    const buffer = Buffer.allocUnsafeSlow(MAX_RESPONSE_BYTES)
    let held = Buffer.alloc(0)
    let missing = 0
    let busy = false
    let started = 0

    const send = (): void => {
      busy = true
      started = performance.now()
      socket.write(bytesToSend)
    }
    const finish = (): void => {
      done += 1
      latencies.add(performance.now() - started)
      busy = false
      if (stopped) socket.end()
      else send()
    }
    const begin = (bytes: Buffer): void => {
      const end = bytes.indexOf(HEAD_END)
      if (end === -1) {
        held = Buffer.from(bytes)
        return
      }
      held = Buffer.alloc(0)
      if (!statuses.includes(statusOf(bytes))) fail(bytes.toString('latin1', 0, 60))
      missing = end + HEAD_END.length + responseBytes - bytes.length
      if (missing <= 0) finish()
    }
    const fail = (what: string): void => {
      failures.push(what)
      socket.destroy()
    }
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: {
        buffer,
        callback: bytes => {
          if (missing > 0) {
            missing -= bytes
            if (missing <= 0) finish()
          } else {
            const view = buffer.subarray(0, bytes)
            begin(held.length === 0 ? view : Buffer.concat([held, view]))
          }
          return true
        },
      },
    })
    sockets.add(socket)
    socket.on('connect', send)
    socket.on('error', error => failures.push(error.message))
    socket.on('close', () => {
      sockets.delete(socket)
      // A proxy that closes after each answer sees the next request on a new connection; the answer counts as it is.
      if (busy && !stopped && (missing > 0 || held.length > 0)) failures.push('answer cut short')
      if (!stopped) open(connection)
    })
  }
  for (let i = 0; i < concurrency; i++) open(i)
  return {
    done: () => done,
    failures,
    latencies,
    stop: () => {
      stopped = true
      return closeAll(sockets)
    },
  }
}

/** The version may be 1.0. */
function statusOf(bytes: Buffer): number {
  return Number(bytes.toString('latin1', 'HTTP/1.x '.length, 'HTTP/1.x 200'.length))
}

/** Destroys sockets and waits until they are closed. */
export async function closeAll(sockets: ReadonlySet<Socket>): Promise<void> {
  await Promise.all(
    [...sockets].map(
      socket =>
        new Promise<void>(resolve => {
          socket.once('close', () => resolve())
          socket.destroy()
        }),
    ),
  )
}
