/**
 * A load of requests on connections that are kept open as long as the other side keeps them. Each connection sends the
 * same prepared bytes, waits for the complete response, and sends them again, at once or at a given rate.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Latencies, type Load } from './sample.js'

const HEAD_END = Buffer.from('\r\n\r\n')
const MAX_RESPONSE_BYTES = 64 * 1024
/** How often requests that are due are sent, in milliseconds. */
const TICK_MS = 1

export interface RequestPlan {
  /** The bytes that a connection sends; `connection` counts those open at once from 0. */
  readonly request: (connection: number) => Buffer
  /** Status codes of success. */
  readonly statuses: readonly number[]
  /** Bytes of content of each response. */
  readonly responseBytes: number
}

export interface RequestOptions {
  /** Whether each connection carries a single request. */
  readonly oneRequest?: boolean
  /** Whether to connect with TLS; the certificate is not verified. */
  readonly tls?: boolean
  /**
   * Requests per second over all connections; as many as possible if absent. A time is measured from when a request was
   * due, so it includes the wait for a connection.
   */
  readonly perSecond?: number
}

export function requestLoad(
  port: number,
  { request, statuses, responseBytes }: RequestPlan,
  concurrency: number,
  { oneRequest = false, tls = false, perSecond }: RequestOptions = {},
): Load {
  const latencies = new Latencies()
  const failures: string[] = []
  const sockets = new Set<Socket>()
  /** The functions that send the next request of each idle connection. */
  const waiting: ((due: number) => void)[] = []
  const pace = perSecond === undefined ? undefined : new Pace(perSecond, waiting)
  let done = 0
  let stopped = false

  const open = (connection: number): void => {
    let held = Buffer.alloc(0)
    let missing = 0
    let busy = false
    let started = 0

    const send = (due: number): void => {
      busy = true
      started = due
      socket.write(request(connection))
    }
    const next = (): void => {
      if (pace === undefined) send(performance.now())
      else waiting.push(send)
    }
    const finish = (): void => {
      done += 1
      latencies.add(performance.now() - started)
      busy = false
      if (stopped || oneRequest) socket.end()
      else next()
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
    const read = (bytes: Buffer): void => {
      if (missing > 0) {
        missing -= bytes.length
        if (missing <= 0) finish()
      } else begin(held.length === 0 ? bytes : Buffer.concat([held, bytes]))
    }
    const socket = tls ? openTls(port, read) : openPlain(port, read)
    sockets.add(socket)
    socket.on(tls ? 'secureConnect' : 'connect', next)
    socket.on('error', error => failures.push(error.message))
    socket.on('close', () => {
      sockets.delete(socket)
      const index = waiting.indexOf(send)
      if (index !== -1) waiting.splice(index, 1)
      // If the proxy closes after each response, the next request is sent on a new connection; the response counts.
      if (busy && !stopped && (missing > 0 || held.length > 0)) failures.push('response incomplete')
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
      pace?.stop()
      return closeAll(sockets)
    },
  }
}

/** Sends requests at a steady rate, on whichever connections are idle. */
class Pace {
  readonly #intervalMs: number
  readonly #waiting: ((due: number) => void)[]
  readonly #timer: NodeJS.Timeout
  #due = performance.now()

  constructor(perSecond: number, waiting: ((due: number) => void)[]) {
    this.#intervalMs = 1000 / perSecond
    this.#waiting = waiting
    this.#timer = setInterval(() => this.#send(), TICK_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #send(): void {
    const now = performance.now()
    while (this.#due <= now) {
      const send = this.#waiting.shift()
      // No connection is idle: the request stays due, and its time goes on.
      if (send === undefined) return
      send(this.#due)
      this.#due += this.#intervalMs
    }
  }
}

function openPlain(port: number, read: (bytes: Buffer) => void): Socket {
  const buffer = Buffer.allocUnsafeSlow(MAX_RESPONSE_BYTES)
  const callback = (bytes: number): boolean => {
    read(buffer.subarray(0, bytes))
    return true
  }
  return connect({ host: '127.0.0.1', port, noDelay: true, onread: { buffer, callback } })
}

function openTls(port: number, read: (bytes: Buffer) => void): Socket {
  const socket = connectTls({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
  })
  socket.setNoDelay(true)
  return socket.on('data', read)
}

/** The status code of a status line with HTTP/1.1 or HTTP/1.0. */
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
