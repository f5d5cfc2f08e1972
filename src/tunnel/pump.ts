/**
 * Raw bytes both ways between a client and an upstream socket: a tunnel after CONNECT, or a connection after Upgrade
 * (RFC 9110 §9.3.6, §7.8).
 *
 * Nothing is changed and nothing is held back longer than the slower side makes necessary. The end of one direction is
 * passed on as the end of that direction alone; a reset is passed on as a reset. One idle clock runs over both.
 */
import type { Socket } from 'node:net'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import { handleData, handleEvents, NOBODY, SocketHandler } from '../net/socket-handler.js'
import type { CloseReason } from '../outcome.js'
import { type BufferedReader, type SocketReader, toBufferedSocket } from './socket-reader.js'
import { JoiningWriter, resetSocket } from './socket-writer.js'

export interface PumpLimits {
  /** Milliseconds without a byte in either direction. */
  readonly idleMs: number
  /** Milliseconds from the start, busy or not. */
  readonly lifetimeMs: number
}

export interface PumpResult {
  readonly bytesUp: number
  readonly bytesDown: number
  readonly reason: CloseReason
}

/** One end of a pump. */
export interface PumpSide {
  readonly socket: Socket
  /** What reads the socket, when it was made with a reader; without one it is read the ordinary way. */
  readonly reader?: SocketReader | undefined
  /** Bytes that came from this side already: they go first. */
  readonly early: readonly Uint8Array[]
}

/** What keeps two sockets busy until both are closed: a pump, or what becomes one. */
export interface RunningPump {
  /** Whether it begins with nothing but TLS for the host of its CONNECT. */
  readonly verifiesServerName?: boolean
  readonly finished: Promise<PumpResult>
  /** Bytes from either side so far; once it is finished, those of its result. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** Ends it when it has been idle, or has lived, for too long. */
  check(now: number): void
  /** Ends both sides at once. */
  stop(reason: CloseReason): void
}

/** Where the far end of a pump is. */
export interface PumpUpstream {
  /** The IP address that was connected to. */
  readonly address: string
  /** The URL of the parent proxy that this is the address of. */
  readonly parent: string | undefined
  /** What the resolver made of the host that was asked for, where that is a single label. */
  readonly completed?: string | undefined
  /** Milliseconds from dialling to an established connection; absent when one was reused. */
  readonly connectMs?: number | undefined
}

/** Where tunnels are registered: whoever keeps them calls `check` now and then, and may `stop` them. */
export interface OpenTunnels {
  open(pump: RunningPump, admitted: AdmittedExchange, upstream: PumpUpstream): void
}

/** A piece from the client this large is an upload: worth a buffer of ours. It is what Node reads at a time. */
const BULK_BYTES = 64 * 1024

export class Pump implements RunningPump {
  readonly finished: Promise<PumpResult>
  readonly #client: End
  readonly #upstream: End
  readonly #limits: PumpLimits
  readonly #now: () => number
  readonly #endsAt: number
  #activeAt: number
  #reason: CloseReason = 'complete'
  #open = 2
  #resolve: (result: PumpResult) => void = nobodyWaits

  /**
   * @param now milliseconds, monotonic
   * @param makeClientReader for an accepted socket: what reads it once it turns out to carry an upload
   */
  constructor(
    client: PumpSide,
    upstream: PumpSide,
    limits: PumpLimits,
    now: () => number,
    makeClientReader?: () => BufferedReader,
  ) {
    this.#limits = limits
    this.#now = now
    this.#activeAt = now()
    this.#endsAt = this.#activeAt + limits.lifetimeMs
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    this.#client = new End(this, client, 'client_reset', makeClientReader)
    this.#upstream = new End(this, upstream, 'upstream_reset', undefined)
    this.#client.joinTo(this.#upstream)
    this.#upstream.joinTo(this.#client)
    this.#client.flow(client.early)
    this.#upstream.flow(upstream.early)
  }

  get bytesUp(): number {
    return this.#client.bytes
  }

  get bytesDown(): number {
    return this.#upstream.bytes
  }

  check(now: number): void {
    if (now >= this.#endsAt) this.stop('lifetime')
    else if (now >= this.#activeAt + this.#limits.idleMs) this.stop('idle')
  }

  stop(reason: CloseReason): void {
    this.#reason = reason
    this.#client.destroy()
    this.#upstream.destroy()
  }

  // --- for its ends ---

  /** A byte has passed, or was taken. */
  active(): void {
    this.#activeAt = this.#now()
  }

  /** The first failure is the reason of the end, unless that is known. */
  failed(reason: CloseReason): void {
    if (this.#reason === 'complete') this.#reason = reason
  }

  /** One end is closed; with the second, nothing that was read from one is being written to the other any more. */
  closed(): void {
    this.#open -= 1
    if (this.#open > 0) return
    this.#client.release()
    this.#upstream.release()
    this.#resolve({ bytesUp: this.bytesUp, bytesDown: this.bytesDown, reason: this.#reason })
  }
}

/** One end while it runs. Its socket may be replaced by another over the same connection. */
class End extends SocketHandler {
  bytes = 0
  readonly #pump: Pump
  readonly #onReset: CloseReason
  #socket: Socket
  #reader: SocketReader | undefined
  /** The end that gets what is read here. */
  #other: End
  #makeReader: (() => BufferedReader) | undefined
  /** Made by the first piece that the system does not take at once. */
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

  joinTo(other: End): void {
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
        // A piece as large as the high-water mark that is not in the system's hands yet always makes this false, and
        // `drain` comes when all of it is: only then is its buffer read into again.
        return other.#socket.writableLength === 0 || !other.#socket.writableNeedDrain
      })
    }
    // It has ended before it was watched, and does not say so again.
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

  /** The end of one direction is passed on as the end of that direction alone. */
  override onEnd(): void {
    this.#other.#endWrites()
  }

  override onDrain(): void {
    this.#pump.active()
    this.#other.#socket.resume()
  }

  override onError(): void {
    this.#pump.failed(this.#onReset)
    // Whatever the far side has been sent so far is not the whole: a clean end would say that it is.
    resetSocket(this.#other.#socket)
  }

  override onClose(): void {
    const other = this.#other.#socket
    // Closed without an end (a reset that was seen while writing, or `stop`): the other side goes too.
    if (!other.destroyed && !other.writableEnded) other.destroy()
    this.#pump.closed()
  }

  /** @returns false when the other end has fallen behind */
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

  /** Goes on with a socket that reads into a buffer of ours, where that can be had. */
  #readBuffered(): void {
    const makeReader = this.#makeReader
    if (makeReader === undefined) return
    const reader = makeReader()
    this.#writer?.flush()
    const plain = this.#socket
    // What it has read already comes as `pending`, and not as data of its own, too.
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

function nobodyWaits(): void {}
