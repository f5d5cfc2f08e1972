/** Reads the content of an entry for a receiver, and checks each piece before it passes any byte of it on. */
import type { ContentReceiver, Reading } from '../store.js'
import { DamagedEntry, type DiskEntry, isWholePiece, PIECE_BYTES } from './entry-file.js'
import type { ReadableFile } from './files.js'

export interface BodyReadingOptions {
  readonly entry: DiskEntry
  /** Positions of the first and the last byte. */
  readonly first: number
  readonly last: number
  readonly receiver: ContentReceiver
  readonly open: () => Promise<ReadableFile>
  /** Called with the reason before `failed`. */
  readonly onFailure: (error: unknown) => void
  readonly onOver: (reading: BodyReading) => void
}

export class BodyReading implements Reading {
  readonly #options: BodyReadingOptions
  #file: ReadableFile | undefined
  #isPaused = false
  #isOver = false
  /** While it waits for `resume`. */
  #wake = (): void => {}

  constructor(options: BodyReadingOptions) {
    this.#options = options
    void this.#run()
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#wake()
  }

  cancel(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#wake()
  }

  /** Ends the reading because the store is closed. */
  fail(): void {
    if (this.#isOver) return
    this.cancel()
    this.#options.receiver.failed()
  }

  async #run(): Promise<void> {
    const { receiver, onOver } = this.#options
    // The receiver must not be called before the constructor has returned.
    await Promise.resolve()
    try {
      await this.#pass()
    } catch (error) {
      if (this.#isOver) return
      this.#isOver = true
      this.#options.onFailure(error)
      receiver.failed()
      return
    } finally {
      this.#file?.close()
      onOver(this)
    }
    if (this.#isOver) return
    this.#isOver = true
    receiver.ended()
  }

  async #pass(): Promise<void> {
    const { entry, first, last, receiver } = this.#options
    for (let at = first; at <= last && !this.#isOver; ) {
      const piece = Math.floor(at / PIECE_BYTES)
      const start = entry.content === undefined ? piece * PIECE_BYTES : 0
      const bytes = entry.content ?? (await this.#readPiece(piece))
      await this.#resumed()
      if (this.#isOver) return
      const chunk = bytes.subarray(at - start, last + 1 - start)
      if (chunk.length === 0) throw new RangeError('a stored response is shorter than what is read of it')
      at += chunk.length
      receiver.data(chunk)
    }
    // A receiver that paused at the last byte is notified of the end only after it has resumed.
    await this.#resumed()
  }

  async #readPiece(piece: number): Promise<Buffer> {
    const { entry, open } = this.#options
    this.#file ??= await open()
    const at = piece * PIECE_BYTES
    const length = Math.min(PIECE_BYTES, entry.length - at)
    const bytes = await this.#file.read(at, length)
    if (bytes.length !== length || !isWholePiece(bytes, entry.crcs[piece])) {
      throw new DamagedEntry('its content differs')
    }
    return bytes
  }

  async #resumed(): Promise<void> {
    while (this.#isPaused && !this.#isOver) {
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }
}
