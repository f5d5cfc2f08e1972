/**
 * What a connection begins with before its first request: the TLS handshake (RFC 8446 §4), or the header in which a
 * load balancer names the client of the connection (The PROXY protocol, §2). Until that is complete, the connection is
 * counted, limited in time and ended like one that carries HTTP, so that a client that never finishes costs no more
 * than one that never sends a request head. Nothing is served before it, and nothing is sent when it fails.
 */
import type { Socket } from 'node:net'
import { GrowableBuffer } from '../http1/growable-buffer.js'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import type { ConnectionSettings } from './connection.js'
import type { ConnectedClient } from './exchange.js'
import { parseProxyHeader, type ProxyHeader } from './proxy-header.js'

/** The reasons of failures that no parser reports: a clause, or Node's error code. */
interface OpeningKind {
  /** The time limit was exceeded. */
  readonly timedOut: string
  /** The connection was closed before the opening was complete. */
  readonly closedEarly: string
}

export const TLS_HANDSHAKE: OpeningKind = { timedOut: 'ERR_TLS_HANDSHAKE_TIMEOUT', closedEarly: 'ECONNRESET' }
export const PROXY_HEADER: OpeningKind = {
  timedOut: 'not received in time',
  closedEarly: 'the connection was closed before it was complete',
}

export interface OpeningEvents {
  /** @param reason one of its kind's, or what is wrong with the received bytes */
  failed(address: string, reason: string): void
  /** The connection is closed, or was taken over by its next owner. */
  released(opening: Opening): void
}

export class Opening {
  index = NOT_INDEXED
  readonly socket: Socket
  /** The peer. Its slot is released if the connection is closed before it is taken over. */
  readonly client: ConnectedClient
  readonly #kind: OpeningKind
  readonly #events: OpeningEvents
  /** Milliseconds, monotonic; the server checks it at short intervals, so that no timer is needed. */
  readonly #deadline: number
  /** Bytes of the socket that were read before. */
  readonly #bytesBefore: number
  #isOver = false

  /** @param settings the current ones: the time limit is that of a request head */
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
    if (now >= this.#deadline && !this.#isOver) this.fail(this.#kind.timedOut)
  }

  drain(): void {
    this.destroy()
  }

  destroy(): void {
    this.#isOver = true
    this.socket.destroy()
  }

  /** It is complete: the connection belongs to its next owner from here on. */
  succeed(): void {
    this.#isOver = true
    this.socket.off('close', this.#onClose)
    this.#events.released(this)
  }

  fail(reason: string): void {
    this.failed(reason)
    this.socket.destroy()
  }

  /** It has failed, and the socket is or will be closed by someone else. Only the first reason is reported. */
  failed(reason: string): void {
    // A connection that is closed without any data was a check whether the port is open; it is not reported.
    const isSilent = this.socket.bytesRead <= this.#bytesBefore
    if (!this.#isOver && !isSilent) this.#events.failed(this.client.address, reason)
    this.#isOver = true
  }

  /** The client has closed the connection before the opening was complete. */
  closedByClient(): void {
    this.fail(this.#kind.closedEarly)
  }

  readonly #onClose = (): void => {
    this.failed(this.#kind.closedEarly)
    this.client.slot.release()
    this.#events.released(this)
  }
}

/**
 * Reads the first byte of a connection that is expected to begin with a TLS handshake.
 * @param proceed continues; the received bytes are back in the socket, which is paused
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
  const onEnd = (): void => opening.closedByClient()
  const onError = (): void => void socket.destroy()
  socket.on('data', onData)
  socket.on('end', onEnd)
  socket.on('error', onError)
  // It is paused if a PROXY header was read from it.
  socket.resume()
}

/**
 * Reads the header of a load balancer; the connection is closed if there is no valid one.
 * @param serve takes over the socket and the slot, with the address of the client; the bytes after the header are back
 *   in the socket, which is paused
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
  const onEnd = (): void => opening.closedByClient()
  const onError = (): void => void socket.destroy()
  socket.on('data', onData)
  socket.on('end', onEnd)
  socket.on('error', onError)
}
