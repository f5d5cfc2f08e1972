/**
 * Limits the number of connections to the admin listener. It has few clients, and each connection takes a file descriptor
 * that the proxy could use. At the limit, a new connection replaces the one that has been idle longest, so that idle
 * connections do not keep probes and scrapes away.
 */
import type { Socket } from 'node:net'
import { type Descriptors, descriptorOf } from '../limits/descriptors.js'

/** Twice the number of watchers of the status page. */
export const MAX_CONNECTIONS = 64
/** The limit while only the descriptors that are reserved for the process itself are left. */
export const MAX_KEPT_CONNECTIONS = 4

export class AdminConnections {
  readonly #descriptors: Descriptors
  readonly #open = new Set<Socket>()
  /** The open connections without a request in progress; the one that has been idle longest comes first. */
  readonly #idle = new Set<Socket>()

  constructor(descriptors: Descriptors) {
    this.#descriptors = descriptors
  }

  /** Accepts a new connection, or closes it at the limit when no other connection is idle. */
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

  /** A request has arrived on the connection. */
  begin(socket: Socket): void {
    this.#idle.delete(socket)
  }

  /** The response is complete. */
  end(socket: Socket): void {
    if (this.#open.has(socket)) this.#idle.add(socket)
  }

  /** Whether a response is in progress. */
  isAnswering(socket: Socket): boolean {
    return !this.#idle.has(socket)
  }

  #remove(socket: Socket): void {
    this.#open.delete(socket)
    this.#idle.delete(socket)
  }
}
