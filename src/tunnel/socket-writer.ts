/**
 * The write side of a socket whose other end may take nothing for a time, and the end that is no end of what was sent.
 *
 * What waits then is bounded by its bytes, and each write that waits costs some 250 bytes of memory beside those it
 * holds. So behind what the system has not taken, small pieces are held here and joined: what is sent one byte at a time
 * costs what it would cost in one piece. As long as the system takes what it is given, nothing is held and nothing is
 * copied.
 */
import type { Socket } from 'node:net'
import { GrowableBuffer } from '../http1/growable-buffer.js'

/** Held at most; so many bytes are a write of their own whatever waits before them. */
const HELD_BYTES = 16 * 1024

export class JoiningWriter {
  readonly #socket: Socket
  /** Whether the socket calls back once it has written what it has. */
  #isWaiting = false
  #held: GrowableBuffer | undefined
  /** Called when what was waited for is written; made by the first writer that waits. */
  #taken: (() => void) | undefined

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * @param piece text is one character a byte
   * @returns false when the other end has fallen behind; the socket emits `drain` when it has caught up
   */
  write(piece: string | Uint8Array): boolean {
    if (this.#isWaiting && piece.length < HELD_BYTES) {
      if ((this.#held?.length ?? 0) + piece.length >= HELD_BYTES) this.flush()
      this.#held ??= new GrowableBuffer()
      this.#held.push(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
      return !this.#socket.writableNeedDrain
    }
    const taken = this.#whenTaken()
    this.flush()
    return this.#send(piece, taken)
  }

  /** Whether small pieces are held until those before them have been taken. */
  get isJoining(): boolean {
    return this.#isWaiting
  }

  /** Writes them in one system call; what is held goes first. */
  writeTogether(pieces: readonly (string | Uint8Array)[]): void {
    const taken = this.#whenTaken()
    const last = pieces.length - 1
    this.#socket.cork()
    this.flush()
    for (const [index, piece] of pieces.entries()) this.#send(piece, index === last ? taken : undefined)
    this.#socket.uncork()
  }

  /** Hands what is held to the socket. */
  flush(): void {
    const held = this.#held
    this.#held = undefined
    if (held !== undefined && this.#socket.writable) this.#send(held.all)
  }

  /** What is to be called when the next write is done: nothing where the system takes what it is given. */
  #whenTaken(): (() => void) | undefined {
    if (this.#isWaiting || this.#socket.writableLength === 0) return undefined
    this.#isWaiting = true
    this.#taken ??= () => {
      this.#isWaiting = false
      this.flush()
    }
    return this.#taken
  }

  #send(piece: string | Uint8Array, taken?: () => void): boolean {
    const socket = this.#socket
    return typeof piece === 'string' ? socket.write(piece, 'latin1', taken) : socket.write(piece, taken)
  }
}

/**
 * Ends a connection so that its peer cannot take the end for the end of what was sent: with a TCP reset. What is not
 * plain TCP can only be closed; TLS has an end of its own, which a closed connection lacks.
 */
export function resetSocket(socket: Socket): void {
  // While the system is sending the FIN it refuses a reset, and the socket would stay open for ever without a `close`.
  // All that was written has been sent by then, so that the FIN tells no lie.
  const sendingFin = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
  if (sendingFin) {
    socket.destroy()
    return
  }
  try {
    socket.resetAndDestroy()
  } catch {
    socket.destroy()
  }
}
