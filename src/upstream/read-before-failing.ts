/**
 * Delays write errors until everything received has been read (RFC 9112 §9.6, from the client's side).
 *
 * An origin may respond and close before it has read the whole request, so that what is still being sent to it causes a
 * reset. The response could still be read then, but Node destroys a socket as soon as a write fails, and unread data is
 * lost. Here the failure of a write is not reported to the socket until its read side has ended, or has received nothing
 * for a while.
 */
import type { Socket } from 'node:net'

type WriteCallback = (error?: Error | null) => void

/** Milliseconds without a received byte after which the failure of a write is reported although reading has not ended. */
const MAX_WAIT_MS = 5000

export class ReadBeforeFailing {
  readonly #socket: Socket
  #state: 'none' | 'active' | 'released' = 'none'

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Starts to delay write errors. It is called before content is written: a head alone fails only on a dead connection. */
  begin(): void {
    if (this.#state !== 'none') return
    this.#state = 'active'
    const socket = this.#socket
    const write = socket._write.bind(socket)
    const writev = socket._writev?.bind(socket)
    socket._write = (chunk, encoding, callback) => write(chunk, encoding, this.#held(callback))
    if (writev !== undefined) socket._writev = (chunks, callback) => writev(chunks, this.#held(callback))
  }

  /** The socket has a new owner: from now on a failed write is reported at once. */
  release(): void {
    this.#state = 'released'
  }

  #held(callback: WriteCallback): WriteCallback {
    return error => {
      const socket = this.#socket
      const isOver = this.#state === 'released' || socket.readableEnded || socket.destroyed
      if (error === undefined || error === null || isOver) callback(error)
      else this.#hold(() => callback(error))
    }
  }

  #hold(fail: () => void): void {
    const socket = this.#socket
    let bytesRead = socket.bytesRead
    const finish = (): void => {
      clearInterval(timer)
      socket.off('end', finish)
      socket.off('close', finish)
      fail()
    }
    // If the socket is paused, its receiver has not yet taken all that was received.
    const timer = setInterval(() => {
      if (bytesRead === socket.bytesRead && !socket.isPaused()) finish()
      bytesRead = socket.bytesRead
    }, MAX_WAIT_MS)
    socket.once('end', finish)
    socket.once('close', finish)
  }
}
