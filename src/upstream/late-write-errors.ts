/**
 * Reading to the end before failing (RFC 9112 §9.6, from the client's side).
 *
 * An origin may answer before it has taken all of a request, close, and so reset what is still being sent to it. The
 * answer is there to be read then, but a Node socket whose write fails is destroyed at once, and what it has not read
 * yet is lost. Here a failed write is not told to the socket until its reading side has come to its own end.
 */
import type { Socket } from 'node:net'

type WriteCallback = (error?: Error | null) => void

/** Longest wait, in milliseconds, for a reading side that does not end although writing has failed. */
const MAX_WAIT_MS = 5000

/**
 * To be called before anything is written to `socket`.
 * @returns what ends it: from then on a failed write fails at once
 */
export function readBeforeFailing(socket: Socket): () => void {
  let active = true
  const write = socket._write.bind(socket)
  const writev = socket._writev?.bind(socket)
  const held =
    (callback: WriteCallback): WriteCallback =>
    error => {
      if (!active || error === undefined || error === null || socket.readableEnded || socket.destroyed) {
        callback(error)
        return
      }
      const fail = (): void => {
        clearTimeout(timer)
        socket.removeListener('end', fail)
        socket.removeListener('close', fail)
        callback(error)
      }
      const timer = setTimeout(fail, MAX_WAIT_MS)
      socket.once('end', fail)
      socket.once('close', fail)
    }
  socket._write = (chunk, encoding, callback) => write(chunk, encoding, held(callback))
  if (writev !== undefined) socket._writev = (chunks, callback) => writev(chunks, held(callback))
  return () => {
    active = false
  }
}
