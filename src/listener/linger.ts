/**
 * The end of a connection whose client may still be sending: what comes is read and thrown away, within bounds, so that
 * the client sees the answer and not a reset (RFC 9112 §9.6).
 */
import type { Socket } from 'node:net'

/** How long a client may take to go away once it has been sent everything. */
export const LINGER_MS = 5000
/** What is read and thrown away at most. */
const MAX_BYTES = 16 * 1024 * 1024

export class Linger {
  readonly #socket: Socket
  #active = false
  #bytes = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  get active(): boolean {
    return this.#active
  }

  /**
   * @param isIdle whether the client has sent nothing since its last answer: nothing is waited for then
   * @param sent otherwise called when the client has been sent everything, the FIN too
   */
  begin(isIdle: boolean, sent: () => void): void {
    this.#active = true
    this.#socket.end(isIdle ? () => this.#socket.destroy() : sent)
  }

  discard(chunk: Uint8Array): void {
    this.#bytes += chunk.length
    if (this.#bytes > MAX_BYTES) this.#socket.destroy()
  }
}
