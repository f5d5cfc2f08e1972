/**
 * Writes an entry: its content piece by piece under an id of its own, and its record once all of them are there. Until
 * then nothing leads to them, and they vanish by themselves.
 */
import type { CacheEntry, EntryWriter } from '../store.js'
import { INLINE_BYTES, newPiece, PIECE_BYTES, PIECE_HEAD_BYTES, sealPiece } from './entry-record.js'

/** Where an entry is written to. */
export interface EntryTarget {
  /** About how long its record is without content. */
  readonly recordBytes: number
  /** Sends a piece; fails when it cannot be sent or is not taken. */
  putPiece(index: number, piece: Buffer): Promise<void>
  /** The content is complete: the record comes last. @returns undefined when it is not kept */
  commit(length: number, inline: Buffer | undefined): Promise<CacheEntry | undefined>
  /** What was sent is not wanted. */
  discard(): void
}

/** With these parts of the limit waiting the writers are behind, and have caught up. */
const BEHIND = 0.75
const CAUGHT_UP = 0.5

/** How many bytes of pieces wait to be taken, of all entries that are written. */
export class WriteQueue {
  readonly #limit: number
  #bytes = 0
  #catchingUp: Promise<void> | undefined
  #caughtUp = (): void => {}

  constructor(limit: number) {
    this.#limit = limit
  }

  get full(): boolean {
    return this.#bytes >= this.#limit
  }

  /** @returns false when there is no room */
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

  /** Resolves when the writers have caught up; undefined while they keep up. */
  get catchingUp(): Promise<void> | undefined {
    return this.#catchingUp
  }
}

/** The least room that is made for a piece; it doubles as more comes. */
const FIRST_ROOM = 4 * 1024

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
      // A piece leaves when more follows: content that fits into a record is still here at its end.
      if (this.#filled === PIECE_BYTES) this.#send()
      if (!this.#isOpen()) return
      const taken = rest.subarray(0, PIECE_BYTES - this.#filled)
      this.#room(taken.length).set(taken, PIECE_HEAD_BYTES + this.#filled)
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
      const piece = this.#room(0)
      inline = piece.subarray(PIECE_HEAD_BYTES, PIECE_HEAD_BYTES + this.#filled)
    } else this.#send()
    if (!this.#isOpen()) return undefined
    const bytes = this.#target.recordBytes + (inline?.length ?? 0)
    if (!this.#queue.enter(bytes)) {
      this.#giveUp()
      return undefined
    }
    this.#state = 'ended'
    this.#piece = undefined
    try {
      await Promise.all(this.#sent)
      return await this.#target.commit(this.#length, inline)
    } catch {
      this.#target.discard()
      return undefined
    } finally {
      this.#queue.leave(bytes)
    }
  }

  #isOpen(): boolean {
    return this.#state === 'open'
  }

  /** The piece, with room for so many bytes more. */
  #room(bytes: number): Buffer {
    const needed = this.#filled + bytes
    const old = this.#piece
    if (old !== undefined && old.length - PIECE_HEAD_BYTES >= needed) return old
    const toCome = this.#expected === undefined ? FIRST_ROOM : this.#expected - this.#pieces * PIECE_BYTES
    const doubled = old === undefined ? toCome : 2 * (old.length - PIECE_HEAD_BYTES)
    const piece = newPiece(Math.min(Math.max(doubled, needed), PIECE_BYTES))
    old?.copy(piece, 0, 0, PIECE_HEAD_BYTES + this.#filled)
    this.#piece = piece
    return piece
  }

  #send(): void {
    const piece = this.#piece?.subarray(0, PIECE_HEAD_BYTES + this.#filled)
    if (piece === undefined) return
    if (!this.#queue.enter(piece.length)) {
      this.#giveUp()
      return
    }
    sealPiece(piece)
    const sent = this.#target.putPiece(this.#pieces, piece).finally(() => this.#queue.leave(piece.length))
    sent.catch(() => this.abort())
    this.#sent.push(sent)
    this.#pieces++
    this.#piece = undefined
    this.#filled = 0
  }

  #giveUp(): void {
    this.#state = 'given up'
    this.#piece = undefined
    this.#target.discard()
  }
}
