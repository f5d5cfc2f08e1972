/**
 * Raw bytes both ways between a client and an upstream socket: a tunnel after CONNECT, or a connection after Upgrade
 * (RFC 9110 §9.3.6, §7.8).
 *
 * Nothing is changed and nothing is held back longer than the slower side makes necessary. The end of one direction is
 * passed on as the end of that direction alone; a reset is passed on as a reset. One idle clock runs over both.
 */
import type { Socket } from 'node:net'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { CloseReason } from '../outcome.js'
import { toBufferedSocket } from './buffered-socket.js'
import { JoiningWriter } from './joining-writer.js'
import type { BufferedReader, SocketReader } from './read-buffer.js'
import { resetSocket } from './reset-socket.js'

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

/** One end while it runs. Its socket may be replaced by another over the same connection. */
interface End {
  socket: Socket
  writer: JoiningWriter
  reader: SocketReader | undefined
  bytes: number
  readonly onReset: CloseReason
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
  #makeClientReader: (() => BufferedReader) | undefined
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
    this.#client = endOf(client, 'client_reset')
    this.#upstream = endOf(upstream, 'upstream_reset')
    this.#limits = limits
    this.#now = now
    this.#activeAt = now()
    this.#endsAt = this.#activeAt + limits.lifetimeMs
    this.#makeClientReader = makeClientReader
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    this.#watch(this.#client, this.#upstream)
    this.#watch(this.#upstream, this.#client)
    this.#flow(this.#client, this.#upstream, client.early)
    this.#flow(this.#upstream, this.#client, upstream.early)
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
    this.#client.socket.destroy()
    this.#upstream.socket.destroy()
  }

  /** Passes on how `from` ends, as long as its socket is the one it has now. */
  #watch(from: End, to: End): void {
    const { socket } = from
    socket.on('end', () => {
      if (from.socket === socket) endWrites(to)
    })
    socket.on('drain', () => {
      this.#activeAt = this.#now()
      to.socket.resume()
    })
    socket.on('error', () => {
      if (this.#reason === 'complete') this.#reason = from.onReset
      // Whatever the far side was told so far is not the whole: a clean end would say that it is.
      resetSocket(to.socket)
    })
    socket.on('close', () => {
      if (from.socket !== socket) return
      // Closed without an end (a reset that was seen while writing, or `stop`): the other side goes too.
      if (!to.socket.destroyed && !to.socket.writableEnded) to.socket.destroy()
      this.#open -= 1
      if (this.#open === 0) this.#finish()
    })
  }

  #flow(from: End, to: End, early: readonly Uint8Array[]): void {
    for (const chunk of early) if (chunk.length > 0) this.#pass(chunk, from, to)
    if (from.reader === undefined) {
      from.socket.on('data', (chunk: Buffer) => {
        if (!this.#pass(chunk, from, to)) from.socket.pause()
        if (chunk.length >= BULK_BYTES && from === this.#client) this.#bufferClient()
      })
    } else {
      from.reader.start(to.socket.writableHighWaterMark, chunk => {
        this.#pass(chunk, from, to)
        // A piece as large as the high-water mark that is not in the system's hands yet always makes this false, and
        // `drain` comes when all of it is: only then is its buffer read into again.
        return to.socket.writableLength === 0 || !to.socket.writableNeedDrain
      })
    }
    // It has ended before it was watched, and does not say so again.
    if (from.socket.readableEnded) endWrites(to)
    else if (to.socket.writableNeedDrain) from.socket.pause()
    else from.socket.resume()
  }

  /** @returns false when `to` has fallen behind */
  #pass(chunk: Uint8Array, from: End, to: End): boolean {
    from.bytes += chunk.length
    this.#activeAt = this.#now()
    return to.writer.write(chunk)
  }

  /** Goes on with a socket that reads into a buffer of ours, where that can be had. */
  #bufferClient(): void {
    const makeReader = this.#makeClientReader
    if (makeReader === undefined) return
    const reader = makeReader()
    this.#client.writer.flush()
    const buffered = toBufferedSocket(this.#client.socket, reader)
    if (buffered === undefined) return
    this.#makeClientReader = undefined
    this.#client.socket = buffered.socket
    this.#client.writer = new JoiningWriter(buffered.socket)
    this.#client.reader = reader
    this.#watch(this.#client, this.#upstream)
    this.#flow(this.#client, this.#upstream, [buffered.pending])
  }

  /** Both sides are closed, and nothing that was read from one is being written to the other any more. */
  #finish(): void {
    this.#client.reader?.release()
    this.#upstream.reader?.release()
    this.#resolve({ bytesUp: this.bytesUp, bytesDown: this.bytesDown, reason: this.#reason })
  }
}

function nobodyWaits(): void {}

function endOf({ socket, reader }: PumpSide, onReset: CloseReason): End {
  return { socket, writer: new JoiningWriter(socket), reader, bytes: 0, onReset }
}

function endWrites({ socket, writer }: End): void {
  writer.flush()
  socket.end()
}
