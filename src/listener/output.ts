/**
 * The way out of a connection: what is written in one turn of the event loop leaves in one system call. Small pieces
 * are joined, large ones are handed over as they are.
 */
import type { Socket } from 'node:net'
import { CHUNK_END, chunkHead } from '../http1/content-writer.js'
import { JoiningWriter } from '../tunnel/socket-writer.js'

type Piece = string | Uint8Array

/** Pieces below this are copied together; a copy of so few bytes costs less than a further system call. */
const JOIN_BELOW_BYTES = 16 * 1024

/** A settled promise runs its callback at the end of the turn, for less than queueMicrotask, which makes a resource. */
const SOON = Promise.resolve()
const NO_CHUNK = -1

export class Output {
  readonly #socket: Socket
  readonly #writer: JoiningWriter
  #pieces: Piece[] = []
  #bytes = 0
  /** Where among the pieces the head of the chunk is to be that has been begun, and how many bytes are in it. */
  #chunkAt = NO_CHUNK
  #chunkBytes = 0
  #scheduled = false
  readonly #handOverSoon = (): void => this.handOver()

  constructor(socket: Socket) {
    this.#socket = socket
    this.#writer = new JoiningWriter(socket)
  }

  /** Text is one character a byte. */
  write(piece: Piece): void {
    if (piece.length === 0) return
    this.#endChunk()
    this.#add(piece)
  }

  /** Content in the chunked coding: that of one turn is one chunk, however small its pieces are (RFC 9112 §7.1). */
  writeChunked(piece: Uint8Array): void {
    // A chunk of no bytes would end the content.
    if (piece.length === 0) return
    if (this.#chunkAt === NO_CHUNK) this.#chunkAt = this.#pieces.push('') - 1
    this.#chunkBytes += piece.length
    this.#add(piece)
  }

  /** Whether the client has fallen behind; the socket emits `drain` when it has caught up. */
  get congested(): boolean {
    return this.#bytes + this.#socket.writableLength >= this.#socket.writableHighWaterMark
  }

  /** Hands everything to the socket, or to whoever waits for it. */
  handOver(): void {
    this.#scheduled = false
    this.#endChunk()
    const pieces = this.#pieces
    if (pieces.length === 0) return
    const bytes = this.#bytes
    this.#pieces = []
    this.#bytes = 0
    if (!this.#socket.writable) return
    if (pieces.length === 1) this.#writer.write(pieces[0] as Piece)
    else if (bytes < JOIN_BELOW_BYTES) this.#writer.write(join(pieces, bytes))
    else this.#writer.writeTogether(joinSmall(pieces))
  }

  /** Writes at once, behind what is left to write: no turn has to be waited for where nothing can follow. */
  writeLast(text: string): void {
    this.handOver()
    if (this.#socket.writable) this.#writer.write(text)
    this.#writer.flush()
  }

  /** Hands everything to the socket now, whatever that waits for. */
  flush(): void {
    this.handOver()
    this.#writer.flush()
  }

  #add(piece: Piece): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#scheduled) return
    this.#scheduled = true
    void SOON.then(this.#handOverSoon)
  }

  #endChunk(): void {
    if (this.#chunkAt === NO_CHUNK) return
    const head = chunkHead(this.#chunkBytes)
    this.#pieces[this.#chunkAt] = head
    this.#pieces.push(CHUNK_END)
    this.#bytes += head.length + CHUNK_END.length
    this.#chunkAt = NO_CHUNK
    this.#chunkBytes = 0
  }
}

/** Small pieces that follow each other as one. */
function joinSmall(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = []
  let small: Piece[] = []
  let bytes = 0
  const endSmall = (): void => {
    if (small.length > 0) joined.push(small.length === 1 ? (small[0] as Piece) : join(small, bytes))
    small = []
    bytes = 0
  }
  for (const piece of pieces) {
    if (piece.length < JOIN_BELOW_BYTES) {
      small.push(piece)
      bytes += piece.length
    } else {
      endSmall()
      joined.push(piece)
    }
  }
  endSmall()
  return joined
}

function join(pieces: readonly Piece[], bytes: number): Buffer {
  const joined = Buffer.allocUnsafe(bytes)
  let offset = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') joined.write(piece, offset, 'latin1')
    else joined.set(piece, offset)
    offset += piece.length
  }
  return joined
}
