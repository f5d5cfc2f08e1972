/**
 * Writes an entry: first its content in pieces under a unique id, then its record. Without a record no look-up finds the
 * pieces, and they expire.
 */
import type { CacheEntry, EntryWriter } from '../store.js'
import { INLINE_BYTES, newPiece, PIECE_BYTES, PIECE_HEAD_BYTES, sealPiece } from './entry-record.js'

/** The destination of an entry. */
export interface EntryTarget {
  /** The approximate length of its record without content. */
  readonly recordBytes: number
  /** Sends a piece. Rejects if it cannot be sent or Redis refuses it. */
  putPiece(index: number, piece: Buffer): Promise<void>
  /** Writes the record, when all pieces were sent. @returns undefined if the entry is not kept */
  commit(length: number, inline: Buffer | undefined): Promise<CacheEntry | undefined>
  /** Discards the pieces that were sent. */
  discard(): void
}

/** The writers are behind at the first of these parts of the limit, and have caught up at the second. */
const BEHIND = 0.75
const CAUGHT_UP = 0.5

/** The limit of bytes in pieces that are being filled, as a multiple of the limit of the queue. */
const FILLING = 4

/**
 * The pieces of all entries that are being written: it limits the bytes that are being filled and those that Redis has not
 * acknowledged.
 *
 * Buffers are reused. If they were left to the garbage collector, a fast origin would fill 40 MiB before it runs.
 */
export class WriteQueue {
  readonly #limit: number
  readonly #free: Buffer[] = []
  #filling = 0
  #bytes = 0
  #catchingUp: Promise<void> | undefined
  #caughtUp = (): void => {}

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Provides a buffer for a piece, to be filled from PIECE_HEAD_BYTES on.
   * @param bytes of content
   * @returns undefined if too many bytes are being filled
   */
  take(bytes: number): Buffer | undefined {
    if (this.#filling + bytes > FILLING * this.#limit) return undefined
    this.#filling += bytes
    return (bytes === PIECE_BYTES ? this.#free.pop() : undefined) ?? newPiece(bytes)
  }

  /** Call it when a piece is sent or discarded. */
  filled(piece: Buffer): void {
    this.#filling -= piece.length - PIECE_HEAD_BYTES
  }

  /** Returns a buffer that is not referred to any more. */
  giveBack(piece: Buffer): void {
    if (piece.length !== PIECE_HEAD_BYTES + PIECE_BYTES) return
    if (this.#free.length * PIECE_BYTES < this.#limit) this.#free.push(piece)
  }

  get full(): boolean {
    return this.#bytes >= this.#limit
  }

  /** @returns false if there is no room */
  enter(bytes: number): boolean {
    if (this.#bytes + bytes > this.#limit) return false
    this.#bytes += bytes
    if (this.#bytes > BEHIND * this.#limit) {
      this.#catchingUp ??= new Promise(resolve => {
        this.#caughtUp = resolve
      })
    }
    return true
  }

  leave(bytes: number): void {
    this.#bytes -= bytes
    if (this.#bytes > CAUGHT_UP * this.#limit) return
    this.#catchingUp = undefined
    this.#caughtUp()
  }

  /** Resolves when the writers have caught up; undefined if they are not behind. */
  get catchingUp(): Promise<void> | undefined {
    return this.#catchingUp
  }
}

/** The first size of a buffer; it doubles as content arrives. From the second piece on buffers have full size. */
const FIRST_ROOM = 4 * 1024
/** Beyond this size a buffer has full size at once. */
const MOST_ROOM = 16 * 1024

export interface EntryWriterOptions {
  readonly target: EntryTarget
  readonly queue: WriteQueue
  /** Bytes of content to come, where that is known. */
  readonly length: number | undefined
  /** The content is complete; the entry is there, or is not kept, when the promise resolves. */
  readonly ending: (ended: Promise<unknown>) => void
}

export class RedisEntryWriter implements EntryWriter {
  readonly #target: EntryTarget
  readonly #queue: WriteQueue
  readonly #expected: number | undefined
  readonly #ending: EntryWriterOptions['ending']
  readonly #sent: Promise<void>[] = []
  #state: 'open' | 'ended' | 'given up' = 'open'
  #piece: Buffer | undefined
  /** Bytes of content in the piece. */
  #filled = 0
  #pieces = 0
  #length = 0

  constructor({ target, queue, length, ending }: EntryWriterOptions) {
    this.#target = target
    this.#queue = queue
    this.#expected = length
    this.#ending = ending
  }

  get isGivenUp(): boolean {
    return this.#state === 'given up'
  }

  get catchingUp(): Promise<void> | undefined {
    return this.#state === 'open' ? this.#queue.catchingUp : undefined
  }

  write(chunk: Uint8Array): void {
    let rest = chunk
    while (this.#state === 'open' && rest.length > 0) {
      // A full piece is sent only when more follows, so that content that fits into the record is still here at its end.
      if (this.#filled === PIECE_BYTES) this.#send()
      if (!this.#isOpen()) return
      const taken = rest.subarray(0, PIECE_BYTES - this.#filled)
      const room = this.#room(taken.length)
      if (room === undefined) {
        this.#giveUp()
        return
      }
      room.set(taken, PIECE_HEAD_BYTES + this.#filled)
      this.#filled += taken.length
      this.#length += taken.length
      rest = rest.subarray(taken.length)
    }
  }

  end(): Promise<CacheEntry | undefined> {
    const ended = this.#end()
    this.#ending(ended)
    return ended
  }

  abort(): void {
    if (this.#state === 'open') this.#giveUp()
  }

  async #end(): Promise<CacheEntry | undefined> {
    if (this.#state !== 'open') return undefined
    if (this.#expected !== undefined && this.#expected !== this.#length) {
      this.#giveUp()
      return undefined
    }
    let inline: Buffer | undefined
    if (this.#length <= INLINE_BYTES) {
      inline = this.#piece?.subarray(PIECE_HEAD_BYTES, PIECE_HEAD_BYTES + this.#filled) ?? Buffer.alloc(0)
    } else this.#send()
    if (!this.#isOpen()) return undefined
    const bytes = this.#target.recordBytes + (inline?.length ?? 0)
    if (!this.#queue.enter(bytes)) {
      this.#giveUp()
      return undefined
    }
    this.#state = 'ended'
    const last = this.#takePiece()
    try {
      await Promise.all(this.#sent)
      return await this.#target.commit(this.#length, inline)
    } catch {
      this.#target.discard()
      return undefined
    } finally {
      if (last !== undefined) this.#queue.giveBack(last)
      this.#queue.leave(bytes)
    }
  }

  #isOpen(): boolean {
    return this.#state === 'open'
  }

  /** The current piece, with room for so many more bytes; undefined if there is no room. */
  #room(bytes: number): Buffer | undefined {
    const needed = this.#filled + bytes
    const old = this.#piece
    if (old !== undefined && old.length - PIECE_HEAD_BYTES >= needed) return old
    const piece = this.#queue.take(this.#roomFor(needed, old))
    if (piece === undefined) return undefined
    old?.copy(piece, 0, 0, PIECE_HEAD_BYTES + this.#filled)
    if (old !== undefined) this.#queue.filled(old)
    this.#piece = piece
    return piece
  }

  #roomFor(needed: number, old: Buffer | undefined): number {
    if (this.#expected !== undefined) {
      const toCome = this.#expected - this.#pieces * PIECE_BYTES
      return Math.min(Math.max(toCome, needed), PIECE_BYTES)
    }
    if (this.#pieces > 0 || needed > MOST_ROOM) return PIECE_BYTES
    return Math.max(old === undefined ? FIRST_ROOM : 2 * (old.length - PIECE_HEAD_BYTES), needed)
  }

  #send(): void {
    const whole = this.#piece
    if (whole === undefined) return
    const piece = whole.subarray(0, PIECE_HEAD_BYTES + this.#filled)
    if (!this.#queue.enter(piece.length)) {
      this.#giveUp()
      return
    }
    this.#takePiece()
    sealPiece(piece)
    const sent = this.#target.putPiece(this.#pieces, piece).finally(() => this.#queue.leave(piece.length))
    // The connection may still refer to a piece that could not be sent.
    void sent.then(
      () => this.#queue.giveBack(whole),
      () => this.abort(),
    )
    this.#sent.push(sent)
    this.#pieces++
    this.#filled = 0
  }

  #giveUp(): void {
    this.#state = 'given up'
    const piece = this.#takePiece()
    if (piece !== undefined) this.#queue.giveBack(piece)
    this.#target.discard()
  }

  /** Removes the current piece from the writer and returns it. */
  #takePiece(): Buffer | undefined {
    const piece = this.#piece
    this.#piece = undefined
    if (piece !== undefined) this.#queue.filled(piece)
    return piece
  }
}
