/**
 * Ends a connection so that its peer can not take the end for the end of what was sent: with a TCP reset. What is not
 * plain TCP can only be closed; TLS has an end of its own, which a closed connection lacks.
 */
import type { Socket } from 'node:net'

export function resetSocket(socket: Socket): void {
  try {
    socket.resetAndDestroy()
  } catch {
    socket.destroy()
  }
}
