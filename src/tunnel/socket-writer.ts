/**
 * The write side of a socket whose peer may stop reading for a while, and a way to close a socket with a reset.
 *
 * Pending writes are bounded by their bytes, but each of them takes some 250 bytes of memory in addition. So while the
 * system does not take more, small pieces are joined here: data that is sent byte by byte then takes no more memory than
 * in one piece. As long as the system takes each write at once, nothing is held or copied.
 */
import type { Socket } from 'node:net'
import { GrowableBuffer } from '../http1/growable-buffer.js'

/** Maximum bytes that are held; a piece of this size is always a write of its own. */
const HELD_BYTES = 16 * 1024

export class JoiningWriter {
  readonly #socket: Socket
  /** Whether a write is pending whose callback writes what is held. */
  #isWaiting = false
  #held: GrowableBuffer | undefined
  /** The callback of the pending write; created when it is needed for the first time. */
  #taken: (() => void) | undefined

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * @param piece bytes, or text with one character for each byte
   * @returns false if the peer reads too slowly; the socket emits `drain` when it has caught up
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

  /** Whether small pieces are held until earlier ones have been written. */
  get isJoining(): boolean {
    return this.#isWaiting
  }

  /** Writes pieces with one system call, after what is held. */
  writeTogether(pieces: readonly (string | Uint8Array)[]): void {
    const taken = this.#whenTaken()
    const last = pieces.length - 1
    this.#socket.cork()
    this.flush()
    for (const [index, piece] of pieces.entries()) this.#send(piece, index === last ? taken : undefined)
    this.#socket.uncork()
  }

  /** Writes what is held to the socket. */
  flush(): void {
    const held = this.#held
    this.#held = undefined
    if (held !== undefined && this.#socket.writable) this.#send(held.all)
  }

  /** The callback for the next write; undefined if none is needed because the system takes each write at once. */
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
 * Closes a connection with a TCP reset, so that the peer cannot take what it has received for complete. Other sockets can
 * only be closed; for TLS that is enough, as the close_notify alert is missing then.
 */
export function resetSocket(socket: Socket): void {
  // While the system is sending the FIN it refuses a reset, and the socket would never emit `close`. All data has been
  // sent by then, so the FIN is correct.
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
