/**
 * Raw bytes both ways between a client and an upstream socket: a tunnel after CONNECT, or a connection after Upgrade
 * (RFC 9110 §9.3.6, §7.8).
 *
 * Nothing is changed and nothing is held back longer than the slower side makes necessary. The end of one direction is
 * passed on as the end of that direction alone; a reset is passed on as a reset. One idle clock runs over both.
 */
import type { Socket } from 'node:net'
import type { CloseReason } from '../outcome.js'
import type { BufferedReader } from './read-buffer.js'
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
  readonly reader?: BufferedReader | undefined
  /** Bytes that came from this side already: they go first. */
  readonly early: readonly Uint8Array[]
}

/** The pumps that run now: whoever keeps them calls `check` now and then, and may `stop` them. */
export interface PumpRegistry {
  add(pump: Pump): void
}

export class Pump {
  readonly finished: Promise<PumpResult>
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #limits: PumpLimits
  readonly #now: () => number
  readonly #endsAt: number
  #activeAt: number
  #bytesUp = 0
  #bytesDown = 0
  #reason: CloseReason = 'complete'
  #open = 2
  readonly #readers: readonly (BufferedReader | undefined)[]
  #resolve: (result: PumpResult) => void = () => {}

  /** @param now milliseconds, monotonic */
  constructor(client: PumpSide, upstream: PumpSide, limits: PumpLimits, now: () => number) {
    this.#client = client.socket
    this.#upstream = upstream.socket
    this.#readers = [client.reader, upstream.reader]
    this.#limits = limits
    this.#now = now
    this.#activeAt = now()
    this.#endsAt = this.#activeAt + limits.lifetimeMs
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    this.#watch(client, this.#upstream, 'client_reset')
    this.#watch(upstream, this.#client, 'upstream_reset')
    this.#flow(client, this.#upstream, bytes => {
      this.#bytesUp += bytes
    })
    this.#flow(upstream, this.#client, bytes => {
      this.#bytesDown += bytes
    })
  }

  /** Ends the pump when it has been idle, or has lived, for too long. */
  check(now: number): void {
    if (now >= this.#endsAt) this.stop('lifetime')
    else if (now >= this.#activeAt + this.#limits.idleMs) this.stop('idle')
  }

  /** Ends both sides at once. */
  stop(reason: CloseReason): void {
    this.#reason = reason
    this.#client.destroy()
    this.#upstream.destroy()
  }

  /** Passes on how `from` ends. */
  #watch({ socket: from }: PumpSide, to: Socket, onReset: CloseReason): void {
    from.on('end', () => to.end())
    from.on('drain', () => {
      this.#activeAt = this.#now()
      to.resume()
    })
    from.on('error', () => {
      if (this.#reason === 'complete') this.#reason = onReset
      // Whatever the far side was told so far is not the whole: a clean end would say that it is.
      resetSocket(to)
    })
    from.once('close', () => {
      // Closed without an end (a reset that was seen while writing, or `stop`): the other side goes too.
      if (!to.destroyed && !to.writableEnded) to.destroy()
      this.#open -= 1
      if (this.#open === 0) this.#finish()
    })
  }

  #flow({ socket: from, reader, early }: PumpSide, to: Socket, count: (bytes: number) => void): void {
    const pass = (chunk: Uint8Array): boolean => {
      count(chunk.length)
      this.#activeAt = this.#now()
      return to.write(chunk)
    }
    for (const chunk of early) if (chunk.length > 0) pass(chunk)
    if (reader === undefined) {
      from.on('data', (chunk: Buffer) => {
        if (!pass(chunk)) from.pause()
      })
    } else {
      reader.start(to.writableHighWaterMark, chunk => {
        pass(chunk)
        // A piece as large as the high-water mark that is not in the system's hands yet always makes this false, and
        // `drain` comes when all of it is: only then is its buffer read into again.
        return to.writableLength === 0 || !to.writableNeedDrain
      })
    }
    if (to.writableNeedDrain) from.pause()
    else from.resume()
  }

  /** Both sides are closed, and nothing that was read from one is being written to the other any more. */
  #finish(): void {
    for (const reader of this.#readers) reader?.release()
    this.#resolve({ bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, reason: this.#reason })
  }
}
