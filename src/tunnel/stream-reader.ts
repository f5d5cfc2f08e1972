/**
 * The read side of a dialled socket that reads for itself, as TLS does: the same for its consumer as one that reads
 * into a buffer of ours.
 */
import type { Socket } from 'node:net'
import type { SocketReader } from './read-buffer.js'

export class StreamReader implements SocketReader {
  readonly #socket: Socket
  #consume: ((chunk: Buffer) => boolean) | undefined
  #unread: Buffer | undefined

  /** @param socket connected, and nothing read from it yet */
  constructor(socket: Socket) {
    this.#socket = socket
  }

  start(_copyBelow: number, consume: (chunk: Buffer) => boolean): void {
    const first = this.#consume === undefined
    this.#consume = consume
    const unread = this.#unread
    this.#unread = undefined
    if (unread !== undefined) this.#onData(unread)
    if (first) this.#socket.on('data', this.#onData)
  }

  unread(chunk: Buffer): void {
    if (chunk.length > 0) this.#unread = chunk
  }

  release(): void {
    this.#consume = () => true
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#consume?.(chunk) === false) this.#socket.pause()
  }
}
