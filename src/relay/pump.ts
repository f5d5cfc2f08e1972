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

export interface PumpOptions {
  readonly client: Socket
  readonly upstream: Socket
  /** The read side of `upstream` when it was dialled with one; without it the socket is read the ordinary way. */
  readonly reader?: BufferedReader | undefined
  /** Bytes that came from the client behind the request head: they go first. */
  readonly fromClient: Uint8Array
  /** Bytes that came from upstream behind its response head. */
  readonly fromUpstream?: Uint8Array
  readonly limits: PumpLimits
}

/** A running pump; `stop` ends it from outside. */
export interface Pump {
  readonly finished: Promise<PumpResult>
  stop(reason: CloseReason): void
}

export function startPump(options: PumpOptions): Pump {
  const { client, upstream, reader, limits } = options
  let bytesUp = 0
  let bytesDown = 0
  let reason: CloseReason = 'complete'
  let open = 2

  const idle = setTimeout(() => stop('idle'), limits.idleMs)
  const lifetime = setTimeout(() => stop('lifetime'), Math.min(limits.lifetimeMs, MAX_TIMER_MS))

  const up = (chunk: Uint8Array): boolean => {
    bytesUp += chunk.length
    idle.refresh()
    return upstream.write(chunk)
  }
  const down = (chunk: Uint8Array): boolean => {
    bytesDown += chunk.length
    idle.refresh()
    return client.write(chunk)
  }
  const stop = (why: CloseReason): void => {
    reason = why
    client.destroy()
    upstream.destroy()
  }

  const finished = new Promise<PumpResult>(resolve => {
    const onClose = (): void => {
      open -= 1
      if (open > 0) return
      clearTimeout(idle)
      clearTimeout(lifetime)
      reader?.release()
      resolve({ bytesUp, bytesDown, reason })
    }
    const join = (from: Socket, to: Socket, onReset: CloseReason): void => {
      from.on('end', () => to.end())
      from.on('drain', () => {
        idle.refresh()
        to.resume()
      })
      from.on('error', () => {
        if (reason === 'complete') reason = onReset
        // Whatever the far side was told so far is not the whole: a clean end would say that it is.
        reset(to)
      })
      from.once('close', () => {
        // Destroyed without an end (a reset that was seen while writing, or `stop`): the other side goes too.
        if (!to.destroyed && !to.writableEnded) to.destroy()
        onClose()
      })
    }
    join(client, upstream, 'client_reset')
    join(upstream, client, 'upstream_reset')
  })

  if (options.fromClient.length > 0) up(options.fromClient)
  if (options.fromUpstream !== undefined && options.fromUpstream.length > 0) down(options.fromUpstream)
  client.on('data', (chunk: Buffer) => {
    if (!up(chunk)) client.pause()
  })
  if (reader === undefined) {
    upstream.on('data', (chunk: Buffer) => {
      if (!down(chunk)) upstream.pause()
    })
    upstream.resume()
  } else {
    reader.start(client.writableHighWaterMark, chunk => {
      down(chunk)
      if (client.writableLength === 0) {
        reader.settle()
        return true
      }
      // A piece as large as the high-water mark that is not in the system's hands yet always makes this false, and
      // `drain` comes when all of it is: only then is its buffer read into again.
      return !client.writableNeedDrain
    })
    upstream.resume()
  }
  if (upstream.writableNeedDrain) client.pause()
  else client.resume()
  return { finished, stop }
}

/** The longest delay that setTimeout takes. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Ends a socket with a reset where it can be (TCP), otherwise at once. */
function reset(socket: Socket): void {
  if (socket.destroyed) return
  if (typeof socket.resetAndDestroy === 'function' && !socket.connecting) socket.resetAndDestroy()
  else socket.destroy()
}
