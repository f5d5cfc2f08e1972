/**
 * The way out of a connection: what is written in one turn of the event loop leaves in one system call. Small pieces
 * are joined, large ones are handed over as they are.
 */
import type { Socket } from 'node:net'

/** Pieces below this are copied together; a copy of so few bytes costs less than a further system call. */
const JOIN_BELOW_BYTES = 16 * 1024

/** A settled promise runs its callback at the end of the turn, for less than queueMicrotask, which makes a resource. */
const SOON = Promise.resolve()

export class Output {
  readonly #socket: Socket
  #pieces: (string | Uint8Array)[] = []
  #bytes = 0
  #scheduled = false
  readonly #flushSoon = (): void => this.flush()

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Text is one character a byte. */
  write(piece: string | Uint8Array): void {
    if (piece.length === 0) return
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#scheduled) return
    this.#scheduled = true
    void SOON.then(this.#flushSoon)
  }

  /** Whether the client has fallen behind; the socket emits `drain` when it has caught up. */
  get congested(): boolean {
    return this.#bytes + this.#socket.writableLength >= this.#socket.writableHighWaterMark
  }

  /** Hands everything to the socket now. */
  flush(): void {
    this.#scheduled = false
    const pieces = this.#pieces
    if (pieces.length === 0) return
    const bytes = this.#bytes
    this.#pieces = []
    this.#bytes = 0
    const socket = this.#socket
    if (!socket.writable) return
    if (pieces.length === 1) write(socket, pieces[0] as string | Uint8Array)
    else if (bytes < JOIN_BELOW_BYTES) socket.write(join(pieces, bytes))
    else {
      socket.cork()
      for (const piece of pieces) write(socket, piece)
      socket.uncork()
    }
  }
}

function write(socket: Socket, piece: string | Uint8Array): void {
  if (typeof piece === 'string') socket.write(piece, 'latin1')
  else socket.write(piece)
}

function join(pieces: readonly (string | Uint8Array)[], bytes: number): Buffer {
  const joined = Buffer.allocUnsafe(bytes)
  let offset = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') joined.write(piece, offset, 'latin1')
    else joined.set(piece, offset)
    offset += piece.length
  }
  return joined
}
