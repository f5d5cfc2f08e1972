/**
 * Requests over connections that are kept alive where the other side keeps them: each connection sends the same prepared
 * bytes, waits for the whole answer, and sends them again, at once or when the rate allows it.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Latencies, type Load } from './sample.js'

const HEAD_END = Buffer.from('\r\n\r\n')
const MAX_RESPONSE_BYTES = 64 * 1024
/** How often it is looked whether a request is due. */
const TICK_MS = 1

export interface RequestPlan {
  /** The bytes that a connection sends; `connection` counts those open at once from 0. */
  readonly request: (connection: number) => Buffer
  /** Status codes of success. */
  readonly statuses: readonly number[]
  /** Content of each answer. */
  readonly responseBytes: number
}

export interface RequestOptions {
  /** A connection carries one request. */
  readonly oneRequest?: boolean
  /** The connection begins with TLS; the certificate is not judged. */
  readonly tls?: boolean
  /**
   * Requests a second over all connections; as many as possible when left out. A time is taken from when a request was
   * due, so that one which had to wait for a connection counts with its wait.
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
  /** Those that wait until a request is due, by what sends it. */
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
      pace?.stop()
      return closeAll(sockets)
    },
  }
}

/** Has requests sent at a steady rate, whoever is there to send them. */
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
      // Nobody is free: it stays due, and its time goes on.
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
