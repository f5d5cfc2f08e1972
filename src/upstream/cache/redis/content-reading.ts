/**
 * Content of an entry on its way from Redis: pieces are asked for one after the other, few of them ahead of what the
 * receiver takes.
 */
import type { ContentReceiver, Reading } from '../store.js'
import { openPiece, type RedisEntry } from './entry-record.js'
import { lateAfter } from '../late.js'
import type { Reply } from './link.js'

/** Pieces that were asked for and not handed on. */
const AHEAD = 2
/** A piece behind the first is waited for so many times longer: then the origin is asked for the rest. */
const STUCK = 20

export interface PieceSource {
  /** @throws when it cannot be asked for */
  getPiece(index: number): Promise<Reply>
  /** A piece has not come in time; the first one failed therefore. */
  late(): void
  /** A piece is missing or damaged: nobody is to find the entry again. */
  broken(): void
}

export interface ReadingOptions {
  readonly entry: RedisEntry
  /** Positions in the content, both included. */
  readonly first: number
  readonly last: number
  readonly receiver: ContentReceiver
  readonly source: PieceSource
  /** Milliseconds that a piece may take before the server counts as slow. */
  readonly lateMs: number
}

export class PieceReading implements Reading {
  readonly #options: ReadingOptions
  readonly #lastPiece: number
  /** Those that have come and were not handed on: in order, as answers come in the order of the questions. */
  readonly #waiting: Buffer[] = []
  #next: number
  #handedOn: number
  #asked = 0
  #paused = false
  #over = false
  #advancing = false

  constructor(options: ReadingOptions) {
    const { entry, first, last } = options
    this.#options = options
    this.#next = Math.floor(first / entry.pieceBytes)
    this.#handedOn = this.#next
    this.#lastPiece = last < first ? this.#next - 1 : Math.floor(last / entry.pieceBytes)
    if (this.#next > this.#lastPiece) queueMicrotask(() => this.#advance())
    else this.#ask()
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    queueMicrotask(() => this.#advance())
  }

  cancel(): void {
    this.#over = true
    this.#waiting.length = 0
  }

  #ask(): void {
    while (this.#asked + this.#waiting.length < AHEAD && this.#next <= this.#lastPiece && !this.#over) {
      this.#asked++
      this.#fetch(this.#next++).catch(() => this.#fail())
    }
  }

  async #fetch(index: number): Promise<void> {
    const { entry, first, source, lateMs } = this.#options
    const isFirst = index === Math.floor(first / entry.pieceBytes)
    let cancelLate = lateAfter(lateMs, () => {
      source.late()
      // Nothing has been sent to a client yet: it is better served by the origin.
      if (isFirst) this.#fail()
      else cancelLate = lateAfter(STUCK * lateMs, () => this.#fail())
    })
    let reply: Reply
    try {
      reply = await source.getPiece(index)
    } finally {
      cancelLate()
      this.#asked--
    }
    if (this.#over) return
    const bytes = Math.min(entry.pieceBytes, entry.length - index * entry.pieceBytes)
    const content = openPiece(reply, bytes)
    if (content === undefined) {
      source.broken()
      this.#fail()
      return
    }
    this.#waiting.push(content)
    this.#advance()
  }

  #advance(): void {
    // A receiver that resumes within a callback is served by the loop that called it.
    if (this.#advancing) return
    this.#advancing = true
    const { entry, first, last, receiver } = this.#options
    while (!this.#over && !this.#paused) {
      if (this.#handedOn > this.#lastPiece) {
        this.#over = true
        receiver.ended()
        break
      }
      const content = this.#waiting.shift()
      if (content === undefined) break
      const position = this.#handedOn++ * entry.pieceBytes
      this.#ask()
      receiver.data(content.subarray(Math.max(first - position, 0), last - position + 1))
    }
    this.#advancing = false
  }

  #fail(): void {
    if (this.#over) return
    this.#over = true
    this.#waiting.length = 0
    this.#options.receiver.failed()
  }
}

/** Content that is here already. */
export class InlineReading implements Reading {
  readonly #content: Uint8Array
  readonly #receiver: ContentReceiver
  #paused = false
  #delivered = false
  #over = false

  constructor(content: Uint8Array, receiver: ContentReceiver) {
    this.#content = content
    this.#receiver = receiver
    queueMicrotask(() => this.#advance())
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    queueMicrotask(() => this.#advance())
  }

  cancel(): void {
    this.#over = true
  }

  #advance(): void {
    if (this.#paused || this.#over) return
    if (!this.#delivered) {
      this.#delivered = true
      if (this.#content.length > 0) this.#receiver.data(this.#content)
    }
    if (this.#paused || this.#over) return
    this.#over = true
    this.#receiver.ended()
  }
}
