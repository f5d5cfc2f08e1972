/**
 * Reading to the end before failing (RFC 9112 §9.6, from the client's side).
 *
 * An origin may answer before it has taken all of a request, close, and so reset what is still being sent to it. The
 * answer is there to be read then, but a Node socket whose write fails is destroyed at once, and what it has not read
 * yet is lost. Here a failed write is not reported to the socket until its reading side has come to its own end, or has
 * brought nothing for a while.
 */
import type { Socket } from 'node:net'

type WriteCallback = (error?: Error | null) => void

/** Milliseconds without a byte after which a reading side that does not end is given up although writing has failed. */
const MAX_WAIT_MS = 5000

export class ReadBeforeFailing {
  readonly #socket: Socket
  #state: 'none' | 'active' | 'released' = 'none'

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** From here on; to be called before what may fail is written. Heads alone fail only where nothing was asked before. */
  begin(): void {
    if (this.#state !== 'none') return
    this.#state = 'active'
    const socket = this.#socket
    const write = socket._write.bind(socket)
    const writev = socket._writev?.bind(socket)
    socket._write = (chunk, encoding, callback) => write(chunk, encoding, this.#held(callback))
    if (writev !== undefined) socket._writev = (chunks, callback) => writev(chunks, this.#held(callback))
  }

  /** The socket is somebody else's now: a failed write fails at once. */
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
    // A receiver that has paused the socket is one that still takes what came.
    const timer = setInterval(() => {
      if (bytesRead === socket.bytesRead && !socket.isPaused()) finish()
      bytesRead = socket.bytesRead
    }, MAX_WAIT_MS)
    socket.once('end', finish)
    socket.once('close', finish)
  }
}
