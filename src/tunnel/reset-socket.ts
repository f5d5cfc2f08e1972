/**
 * Ends a connection so that its peer can not take the end for the end of what was sent: with a TCP reset. What is not
 * plain TCP can only be closed; TLS has an end of its own, which a closed connection lacks.
 */
import type { Socket } from 'node:net'

export function resetSocket(socket: Socket): void {
  // While the system is sending the FIN it refuses a reset, and the socket would stay open for ever without a `close`.
  // All that was written has been sent by then, so that the FIN tells no lie.
  const sendingFin = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
  if (sendingFin) {
    socket.destroy()
    return
  }
  try {
    socket.resetAndDestroy()
  } catch {
    socket.destroy()
  }
}
