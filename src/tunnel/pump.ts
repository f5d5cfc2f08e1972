/**
 * Copies raw bytes in both directions between a client socket and an upstream socket: a tunnel after CONNECT, or a
 * connection after Upgrade (RFC 9110 §9.3.6, §7.8).
 *
 * Bytes are not changed, and buffered only for as long as the receiving side is slower. The end of one direction is
 * passed on as a half-close, a reset as a reset. One idle timeout covers both directions.
 */
import type { Socket } from 'node:net'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import { handleData, handleEvents, NOBODY, SocketHandler } from '../net/socket-handler.js'
import type { TunnelTimes } from '../limits/client-limits.js'
import type { CloseReason } from '../outcome.js'
import { type BufferedReader, type SocketReader, toBufferedSocket } from './socket-reader.js'
import { JoiningWriter, resetSocket } from './socket-writer.js'

export interface PumpResult {
  readonly bytesUp: number
  readonly bytesDown: number
  readonly reason: CloseReason
}

/** One end of a pump. */
export interface PumpSide {
  readonly socket: Socket
  /** Reads the socket, if that was created with `onread`; without it, the socket emits `data` events. */
  readonly reader?: SocketReader | undefined
  /** Bytes already received from this side; they are sent first. */
  readonly early: readonly Uint8Array[]
}

/** Copies bytes between two sockets until both are closed: a pump, or a tunnel that starts one after a check. */
export interface RunningPump {
  /** Whether the tunnel had to begin with a TLS handshake for the host of its CONNECT. */
  readonly verifiesServerName?: boolean
  readonly finished: Promise<PumpResult>
  /** Bytes from the client and from upstream so far; once it has finished, those of its result. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** Closes it if it exceeds its idle time or its lifetime. */
  check(now: number, times: TunnelTimes): void
  /** Closes both sides at once. */
  stop(reason: CloseReason): void
}

/** The upstream end of a pump. */
export interface PumpUpstream {
  /** The IP address that was connected to. */
  readonly address: string
  /** The URL of the parent proxy, if that is what has this address. */
  readonly parent: string | undefined
  /** The full name that search domains made of the requested host, if that was a single label. */
  readonly completed?: string | undefined
  /** Milliseconds from dialling to an established connection; absent when one was reused. */
  readonly connectMs?: number | undefined
}

/** Tunnels are registered here. The registry calls `check` periodically, and may `stop` them. */
export interface OpenTunnels {
  open(pump: RunningPump, admitted: AdmittedExchange, upstream: PumpUpstream): void
}

/** A read from the client of this size, Node's maximum, is taken for an upload, which gets a read buffer of ours. */
const BULK_BYTES = 64 * 1024

export class Pump implements RunningPump {
  readonly finished: Promise<PumpResult>
  readonly #client: End
  readonly #upstream: End
  readonly #now: () => number
  readonly #startedAt: number
  #activeAt: number
  #reason: CloseReason = 'complete'
  #open = 2
  #resolve: (result: PumpResult) => void = ignore

  /**
   * @param now milliseconds, monotonic
   * @param makeClientReader makes the reader for an accepted socket once that turns out to carry an upload
   */
  constructor(
    client: PumpSide,
    upstream: PumpSide,
    now: () => number,
    makeClientReader?: () => BufferedReader,
  ) {
    this.#now = now
    this.#startedAt = now()
    this.#activeAt = this.#startedAt
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    this.#client = new End(this, client, 'client_reset', makeClientReader)
    this.#upstream = new End(this, upstream, 'upstream_reset', undefined)
    this.#client.connectTo(this.#upstream)
    this.#upstream.connectTo(this.#client)
    this.#client.flow(client.early)
    this.#upstream.flow(upstream.early)
  }

  get bytesUp(): number {
    return this.#client.bytes
  }

  get bytesDown(): number {
    return this.#upstream.bytes
  }

  check(now: number, { idleMs, lifetimeMs }: TunnelTimes): void {
    if (now >= this.#startedAt + lifetimeMs) this.stop('lifetime')
    else if (now >= this.#activeAt + idleMs) this.stop('idle')
  }

  stop(reason: CloseReason): void {
    this.#reason = reason
    this.#client.destroy()
    this.#upstream.destroy()
  }

  // --- called by its two ends ---

  /** Bytes have been received or sent: restarts the idle timeout. */
  active(): void {
    this.#activeAt = this.#now()
  }

  /** One end has failed. The first failure is the close reason, unless `stop` has given one. */
  failed(reason: CloseReason): void {
    if (this.#reason === 'complete') this.#reason = reason
  }

  /** One end is closed. Once both are, no read buffer is in use for a write any more. */
  closed(): void {
    this.#open -= 1
    if (this.#open > 0) return
    this.#client.release()
    this.#upstream.release()
    this.#resolve({ bytesUp: this.bytesUp, bytesDown: this.bytesDown, reason: this.#reason })
  }
}

/** One end of a running pump. Its socket may be replaced by another one for the same connection. */
class End extends SocketHandler {
  bytes = 0
  readonly #pump: Pump
  readonly #onReset: CloseReason
  #socket: Socket
  #reader: SocketReader | undefined
  /** The end that what is read here is written to. */
  #other: End
  #makeReader: (() => BufferedReader) | undefined
  /** Created when the system does not take a write at once for the first time. */
  #writer: JoiningWriter | undefined

  constructor(
    pump: Pump,
    { socket, reader }: PumpSide,
    onReset: CloseReason,
    makeReader: (() => BufferedReader) | undefined,
  ) {
    super()
    this.#pump = pump
    this.#socket = socket
    this.#reader = reader
    this.#onReset = onReset
    this.#makeReader = makeReader
    this.#other = this
  }

  connectTo(other: End): void {
    this.#other = other
    handleEvents(this.#socket, this)
  }

  flow(early: readonly Uint8Array[]): void {
    const socket = this.#socket
    const other = this.#other
    for (const chunk of early) if (chunk.length > 0) this.#pass(chunk)
    if (this.#reader === undefined) handleData(socket)
    else {
      this.#reader.start(other.#socket.writableHighWaterMark, chunk => {
        this.#pass(chunk)
        // This is always false for a piece of at least the high-water mark that the system has not taken yet. `drain`
        // follows when it has taken all of it; only then is its buffer read into again.
        return other.#socket.writableLength === 0 || !other.#socket.writableNeedDrain
      })
    }
    // It may have ended before the handler was attached; `end` is not emitted again.
    if (socket.readableEnded) other.#endWrites()
    else if (other.#socket.writableNeedDrain) socket.pause()
    else if (socket.isPaused()) socket.resume()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  release(): void {
    this.#reader?.release()
  }

  override onData(chunk: Buffer): void {
    if (!this.#pass(chunk)) this.#socket.pause()
    if (chunk.length >= BULK_BYTES) this.#readBuffered()
  }

  /** Passes the end of this direction on as a half-close. */
  override onEnd(): void {
    this.#other.#endWrites()
  }

  override onDrain(): void {
    this.#pump.active()
    this.#other.#socket.resume()
  }

  override onError(): void {
    this.#pump.failed(this.#onReset)
    // A clean end would tell the other side that what it has received is complete, so it is reset.
    resetSocket(this.#other.#socket)
  }

  override onClose(): void {
    const other = this.#other.#socket
    // If this side was closed without an end (by a reset that a write met, or by `stop`), the other side is closed, too.
    if (!other.destroyed && !other.writableEnded) other.destroy()
    this.#pump.closed()
  }

  /** @returns false if the other end is slower */
  #pass(chunk: Uint8Array): boolean {
    this.bytes += chunk.length
    this.#pump.active()
    return this.#other.#write(chunk)
  }

  #write(chunk: Uint8Array): boolean {
    if (this.#writer === undefined) {
      if (this.#socket.writableLength === 0) return this.#socket.write(chunk)
      this.#writer = new JoiningWriter(this.#socket)
    }
    return this.#writer.write(chunk)
  }

  #endWrites(): void {
    this.#writer?.flush()
    this.#socket.end()
  }

  /** Replaces the socket by one that reads into a buffer of ours, if that is possible. */
  #readBuffered(): void {
    const makeReader = this.#makeReader
    if (makeReader === undefined) return
    const reader = makeReader()
    this.#writer?.flush()
    const plain = this.#socket
    // What it has already read is returned as `pending`, so it must not be reported as data as well.
    handleEvents(plain, NOBODY)
    const buffered = toBufferedSocket(plain, reader)
    if (buffered === undefined) {
      handleEvents(plain, this)
      return
    }
    this.#makeReader = undefined
    this.#socket = buffered.socket
    this.#writer = undefined
    this.#reader = reader
    handleEvents(this.#socket, this)
    this.flow([buffered.pending])
  }
}

function ignore(): void {}
