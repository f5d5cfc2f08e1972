/**
 * What a connection has to begin with before its first request: the TLS handshake (RFC 8446 §4), or the header with which
 * a load balancer says whose connection it passes on (The PROXY protocol, §2). Until it is complete the connection is
 * counted, bounded in time and ended like one that carries HTTP, so that a client that never finishes costs no more than
 * one that never sends a request head. Nothing is served before it, and nothing is answered when it fails.
 */
import type { Socket } from 'node:net'
import { GrowableBuffer } from '../http1/growable-buffer.js'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import type { ConnectionSettings } from './connection.js'
import type { ConnectedClient } from './exchange.js'
import { parseProxyHeader, type ProxyHeader } from './proxy-header.js'

/** Why one fails that nobody found anything wrong with: a clause, or the code that Node has for it. */
interface OpeningKind {
  /** Its time is over. */
  readonly late: string
  /** The connection was closed in the middle. */
  readonly brokenOff: string
}

export const TLS_HANDSHAKE: OpeningKind = { late: 'ERR_TLS_HANDSHAKE_TIMEOUT', brokenOff: 'ECONNRESET' }
export const PROXY_HEADER: OpeningKind = {
  late: 'not received in time',
  brokenOff: 'the connection ended before it was whole',
}

export interface OpeningEvents {
  /** @param reason as in its kind, or what is wrong with it */
  failed(address: string, reason: string): void
  /** The connection is closed, or belongs to whoever reads what follows. */
  released(opening: Opening): void
}

export class Opening {
  index = NOT_INDEXED
  readonly socket: Socket
  /** Who has connected. Its place is given back when the connection is closed before it belongs to somebody else. */
  readonly client: ConnectedClient
  readonly #kind: OpeningKind
  readonly #events: OpeningEvents
  /** Milliseconds, monotonic; whoever keeps the connections checks it now and then, so that there is no timer. */
  readonly #deadline: number
  /** Bytes that were read before. */
  readonly #bytesBefore: number
  #isOver = false

  /** @param settings in force: there is as much time as for a request head */
  constructor(
    socket: Socket,
    client: ConnectedClient,
    kind: OpeningKind,
    { limits, now }: Pick<ConnectionSettings, 'limits' | 'now'>,
    events: OpeningEvents,
  ) {
    this.socket = socket
    this.client = client
    this.#kind = kind
    this.#events = events
    this.#bytesBefore = socket.bytesRead - socket.readableLength
    this.#deadline = now() + limits.headerTimeoutMs
    socket.once('close', this.#onClose)
  }

  checkDeadline(now: number): void {
    if (now >= this.#deadline && !this.#isOver) this.fail(this.#kind.late)
  }

  drain(): void {
    this.destroy()
  }

  destroy(): void {
    this.#isOver = true
    this.socket.destroy()
  }

  /** It is complete: from here on the connection belongs to whoever reads what follows. */
  succeed(): void {
    this.#isOver = true
    this.socket.off('close', this.#onClose)
    this.#events.released(this)
  }

  fail(reason: string): void {
    this.failed(reason)
    this.socket.destroy()
  }

  /** It has failed, and the socket is closed already or about to be. The first reason counts. */
  failed(reason: string): void {
    // A connection that is closed without a byte is what checks whether the port is open, and nothing to report.
    const isSilent = this.socket.bytesRead <= this.#bytesBefore
    if (!this.#isOver && !isSilent) this.#events.failed(this.client.address, reason)
    this.#isOver = true
  }

  /** The client has ended it in the middle. */
  breakOff(): void {
    this.fail(this.#kind.brokenOff)
  }

  readonly #onClose = (): void => {
    this.failed(this.#kind.brokenOff)
    this.client.slot.release()
    this.#events.released(this)
  }
}

/**
 * Looks at the first byte of a connection whose TLS is to begin.
 * @param proceed goes on with what has come, which waits in the socket, which is paused
 */
export function readFirstByte(opening: Opening, proceed: (first: number) => void): void {
  const { socket } = opening
  const onData = (chunk: Buffer): void => {
    const [first] = chunk
    if (first === undefined) return
    socket.pause()
    socket.off('data', onData)
    socket.off('end', onEnd)
    socket.off('error', onError)
    socket.unshift(chunk)
    proceed(first)
  }
  const onEnd = (): void => opening.breakOff()
  const onError = (): void => void socket.destroy()
  socket.on('data', onData)
  socket.on('end', onEnd)
  socket.on('error', onError)
  // It waits where a header was read from it.
  socket.resume()
}

/**
 * Reads the header of a load balancer; without a good one the connection is closed.
 * @param serve takes the socket and the place over, with the address of the client; what follows the header waits in the
 *   socket, which is paused
 */
export function readProxyHeader(opening: Opening, serve: (client: ConnectedClient) => void): void {
  const { socket } = opening
  const received = new GrowableBuffer()
  const onData = (chunk: Buffer): void => {
    received.push(chunk)
    let header: ProxyHeader | undefined
    try {
      header = parseProxyHeader(received.all)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      opening.fail(error.message)
      return
    }
    if (header === undefined) return
    socket.pause()
    socket.off('data', onData)
    socket.off('end', onEnd)
    socket.off('error', onError)
    if (received.length > header.length) socket.unshift(received.all.subarray(header.length))
    const { address, slot } = opening.client
    serve({ address: header.source?.text ?? address, slot })
    opening.succeed()
  }
  const onEnd = (): void => opening.breakOff()
  const onError = (): void => void socket.destroy()
  socket.on('data', onData)
  socket.on('end', onEnd)
  socket.on('error', onError)
}
