/**
 * Content that is kept in memory, and counted as what it keeps alive: a chunk may be a view of a larger buffer that
 * something else was received into, all of which would stay.
 */
import type { ContentReceiver, Reading } from './store.js'

/** A chunk is kept as it is from so many bytes on, when it is nearly all of its buffer; others are copied. */
const KEPT_BYTES = 16 * 1024
/** Contents up to here are in one piece. */
const WHOLE_BYTES = 64 * 1024
/** Copied chunks are joined to pieces of at most so many bytes. */
const JOINED_BYTES = 64 * 1024
/** What a piece takes beside its bytes, measured: its Buffer, ArrayBuffer and what V8 keeps of it. */
export const PIECE_OVERHEAD = 320

const EMPTY: readonly Buffer[] = Object.freeze([Buffer.alloc(0)])

/** Joins what comes to pieces that keep nothing else alive. */
export class ContentBuilder {
  /** Bytes of content that have come. */
  length = 0
  /** Bytes that are kept alive. */
  held = 0
  readonly #pieces: Buffer[] = []
  /** Copied chunks, the first `#filled` bytes of it. */
  #open: Buffer | undefined
  #filled = 0

  push(chunk: Uint8Array): void {
    this.length += chunk.length
    if (chunk.length >= KEPT_BYTES && chunk.length >= chunk.buffer.byteLength * 0.875) {
      this.#endOpen()
      this.#keep(Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length))
      return
    }
    for (let from = 0; from < chunk.length; ) {
      const open = this.#openFor(chunk.length - from)
      const taken = Math.min(open.length - this.#filled, chunk.length - from)
      open.set(chunk.subarray(from, from + taken), this.#filled)
      this.#filled += taken
      from += taken
      if (this.#filled === JOINED_BYTES) this.#endOpen()
    }
  }

  /** @returns all of it, in order: in one piece where it is small or empty; nothing may be pushed after that */
  end(): readonly Buffer[] {
    this.#endOpen()
    if (this.length === 0) return EMPTY
    const [first] = this.#pieces
    const exact = this.#pieces.length === 1 && first?.buffer.byteLength === this.length
    if (this.length > WHOLE_BYTES || exact) return this.#pieces
    const whole = Buffer.allocUnsafeSlow(this.length)
    let at = 0
    for (const piece of this.#pieces) at += piece.copy(whole, at)
    this.held = whole.length + PIECE_OVERHEAD
    return [whole]
  }

  /** Has room for one byte at least; doubles until it is as large as a piece may be. */
  #openFor(bytes: number): Buffer {
    const before = this.#open
    if (before !== undefined && this.#filled < before.length) return before
    const wanted = Math.max(this.#filled + bytes, 2 * this.#filled)
    const size = this.#pieces.length > 0 ? JOINED_BYTES : Math.min(JOINED_BYTES, wanted)
    const larger = Buffer.allocUnsafeSlow(size)
    before?.copy(larger)
    this.held += size - (before?.length ?? -PIECE_OVERHEAD)
    this.#open = larger
    return larger
  }

  #endOpen(): void {
    const open = this.#open
    if (open === undefined) return
    this.held -= open.length + PIECE_OVERHEAD
    this.#keep(this.#filled === open.length ? open : copyOf(open, this.#filled))
    this.#open = undefined
    this.#filled = 0
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece)
    this.held += piece.buffer.byteLength + PIECE_OVERHEAD
  }
}

function copyOf(buffer: Buffer, length: number): Buffer {
  const copy = Buffer.allocUnsafeSlow(length)
  buffer.copy(copy, 0, 0, length)
  return copy
}

/** Hands out a part of pieces, from the next microtask on. */
export class PieceReading implements Reading {
  /** None once it is over: what is read no more is kept alive by nobody who keeps the reading. */
  #pieces: readonly Buffer[]
  readonly #receiver: ContentReceiver
  readonly #release: () => void
  #piece = 0
  /** Of the piece: where what is read next begins. */
  #offset: number
  #left: number
  #paused = false
  #scheduled = false
  #over = false

  /**
   * @param first position of the first byte
   * @param last of the last one, included; before `first` for no bytes at all
   * @param release called once, when it has ended or is cancelled
   */
  constructor(
    pieces: readonly Buffer[],
    first: number,
    last: number,
    receiver: ContentReceiver,
    release: () => void,
  ) {
    this.#pieces = pieces
    this.#receiver = receiver
    this.#release = release
    this.#left = Math.max(0, last + 1 - first)
    this.#offset = first
    this.#schedule()
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#schedule()
  }

  cancel(): void {
    if (this.#over) return
    this.#over = true
    this.#pieces = EMPTY
    this.#release()
  }

  #schedule(): void {
    if (this.#scheduled || this.#over) return
    this.#scheduled = true
    queueMicrotask(this.#flow)
  }

  readonly #flow = (): void => {
    while (!this.#paused && !this.#over) {
      const piece = this.#left > 0 ? this.#pieces[this.#piece] : undefined
      if (piece === undefined) {
        this.cancel()
        this.#receiver.ended()
      } else this.#deliver(piece)
    }
    this.#scheduled = false
  }

  #deliver(piece: Buffer): void {
    const from = this.#offset
    this.#offset = Math.max(0, from - piece.length)
    this.#piece++
    if (from >= piece.length) return
    const end = Math.min(piece.length, from + this.#left)
    this.#left -= end - from
    this.#receiver.data(from === 0 && end === piece.length ? piece : piece.subarray(from, end))
  }
}
