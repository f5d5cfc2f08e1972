/**
 * The connections to the admin listener: few, as those who ask there are few, and each takes a file descriptor that the
 * proxy could have had. Whoever comes when there is no room gets that of the one that has been idle the longest, so that
 * idle connections keep no probe and no scrape away.
 */
import type { Socket } from 'node:net'
import { type Descriptors, descriptorOf } from '../limits/descriptors.js'

/** Twice as many as may watch the status page. */
export const MAX_CONNECTIONS = 64
/** When the process has no other descriptors left than those it keeps for itself. */
export const MAX_KEPT_CONNECTIONS = 4

export class AdminConnections {
  readonly #descriptors: Descriptors
  readonly #open = new Set<Socket>()
  /** Of them, those without an answer under way; the one that is idle the longest comes first. */
  readonly #idle = new Set<Socket>()

  constructor(descriptors: Descriptors) {
    this.#descriptors = descriptors
  }

  /** Takes a new one in, or closes it when there is no room and no other is idle. */
  add(socket: Socket): void {
    const isKept = this.#descriptors.isKept(descriptorOf(socket))
    const most = isKept ? MAX_KEPT_CONNECTIONS : MAX_CONNECTIONS
    for (const idle of this.#idle) {
      if (this.#open.size < most) break
      this.#remove(idle)
      idle.destroy()
    }
    if (this.#open.size >= most) {
      socket.destroy()
      return
    }
    this.#open.add(socket)
    this.#idle.add(socket)
    socket.once('close', () => this.#remove(socket))
  }

  /** A request has come on it. */
  begin(socket: Socket): void {
    this.#idle.delete(socket)
  }

  /** Its answer is over. */
  end(socket: Socket): void {
    if (this.#open.has(socket)) this.#idle.add(socket)
  }

  /** Whether an answer is under way. */
  isAnswering(socket: Socket): boolean {
    return !this.#idle.has(socket)
  }

  #remove(socket: Socket): void {
    this.#open.delete(socket)
    this.#idle.delete(socket)
  }
}
