/**
 * A connection on which TLS has not begun to carry anything yet (RFC 8446 §4): counted, bounded in time and ended like
 * one that carries HTTP, so that whoever never finishes costs no more than whoever never sends a request head.
 */
import type { Socket } from 'node:net'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import type { ConnectedClient, ConnectionOwner, OwnedConnection } from './connection-owner.js'
import { Deadline } from './deadline.js'

export interface HandshakeOwner extends Pick<ConnectionOwner, 'limits' | 'now' | 'released'> {
  /** The handshake came to nothing; `code` is Node's. */
  handshakeFailed(clientAddress: string, code: string): void
}

export class Handshake implements OwnedConnection {
  index = NOT_INDEXED
  /** The connection beneath TLS. */
  readonly socket: Socket
  readonly client: ConnectedClient
  readonly #owner: HandshakeOwner
  /** Bytes that were read before TLS: those of a PROXY header. */
  readonly #bytesBefore: number
  readonly #deadline: Deadline
  #isOver = false

  /** @param client whose place is given back when the handshake fails; what follows it has it when it succeeds */
  constructor(socket: Socket, client: ConnectedClient, owner: HandshakeOwner) {
    this.socket = socket
    this.client = client
    this.#owner = owner
    this.#bytesBefore = socket.bytesRead - socket.readableLength
    this.#deadline = new Deadline(owner)
    this.#deadline.set('head', owner.limits.headerTimeoutMs)
    socket.once('close', this.#onClose)
  }

  checkDeadline(now: number): void {
    if (this.#deadline.takeExpired(now) === 'none') return
    this.failed('ERR_TLS_HANDSHAKE_TIMEOUT')
    this.socket.destroy()
  }

  drain(): void {
    this.destroy()
  }

  destroy(): void {
    this.#isOver = true
    this.socket.destroy()
  }

  /** TLS stands: from here on the connection belongs to whoever reads what it carries. */
  succeeded(): void {
    this.#isOver = true
    this.#deadline.clear()
    this.socket.off('close', this.#onClose)
    this.#owner.released(this)
  }

  failed(code: string): void {
    // A connection that is closed without a word is what looks whether the port is open, and no news.
    const silent = this.socket.bytesRead <= this.#bytesBefore
    if (!this.#isOver && !silent) this.#owner.handshakeFailed(this.client.address, code)
    this.#isOver = true
  }

  readonly #onClose = (): void => {
    this.failed('ECONNRESET')
    this.client.slot.release()
    this.#owner.released(this)
  }
}
