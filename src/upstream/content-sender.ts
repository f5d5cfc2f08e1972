/**
 * Writes the content of a request to the socket, framed as its head says (RFC 9112 §6, §7.1).
 *
 * An upstream may stop reading for a while, and a pending write takes far more memory than the bytes of a small piece.
 * So pieces that have to wait are joined.
 */
import type { Socket } from 'node:net'
import type { ContentConsumer, RequestContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import { trailerFields } from '../http/trailers.js'
import { CHUNK_END, chunkHead, type ContentWriter } from '../http1/content-writer.js'
import { contentWriter } from '../http1/request-writer.js'
import { JoiningWriter } from '../tunnel/socket-writer.js'

export class ContentSender implements ContentConsumer {
  readonly #socket: Socket
  readonly #framing: ContentWriter
  readonly #writer: JoiningWriter
  readonly #onSent: (error?: Error | null) => void
  #stopped = false

  /** @param onSent called when the last byte has been handed to the system */
  constructor(socket: Socket, content: RequestContent, onSent: (error?: Error | null) => void) {
    this.#socket = socket
    this.#framing = contentWriter({ content })
    this.#writer = new JoiningWriter(socket)
    this.#onSent = onSent
  }

  /** Whether content that still arrives is discarded. */
  get isStopped(): boolean {
    return this.#stopped
  }

  /** Discards all content from now on. */
  stop(): void {
    this.#stopped = true
  }

  /** @returns false if the upstream reads more slowly than content arrives */
  data(chunk: Buffer): boolean {
    if (this.#stopped) return true
    const writer = this.#writer
    this.#framing.count(chunk.length)
    // An empty chunk would end the content.
    if (chunk.length > 0) {
      const pieces =
        this.#framing.framing === 'chunked' ? [chunkHead(chunk.length), chunk, CHUNK_END] : [chunk]
      if (writer.isJoining) for (const piece of pieces) writer.write(piece)
      else writer.writeTogether(pieces)
    }
    return !this.#socket.writableNeedDrain
  }

  end(trailers: Fields): void {
    if (this.#stopped) return
    this.#writer.flush()
    // It is written even if it is empty: the callback reports that everything before it has been written.
    this.#socket.write(this.#framing.end(trailerFields(trailers)), 'latin1', this.#onSent)
  }
}
