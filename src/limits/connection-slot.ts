/**
 * The slot of one client connection within the connection limits, from accept until the socket is closed, whatever the
 * connection is used for in between. A connection over a limit receives 429 or 503 in response to its first request; if too
 * many such connections are waiting, it is closed at once.
 */
import type { ProxyError } from '../errors.js'

export interface ConnectionSlot {
  /** Resolves once the slot was granted or refused, and never rejects; undefined after that. */
  readonly pending: Promise<void> | undefined
  /** The response to every request of this connection; undefined unless the slot was refused. */
  readonly refusal: ProxyError | undefined
  /** To be called when the connection is closed. A second call does nothing. */
  release(): void
}

/** A slot that is granted or refused once. */
export class Slot implements ConnectionSlot {
  pending: Promise<void> | undefined
  refusal: ProxyError | undefined
  #onReleased: (() => void) | undefined
  #isOver = false

  /** Makes the slot pending. @param answered resolves once it was granted or refused, and never rejects */
  wait(answered: Promise<unknown>): void {
    this.pending = answered.then(() => {
      this.pending = undefined
    })
  }

  /** Grants the slot. @param giveBack called when the connection is closed */
  grant(giveBack: () => void): void {
    if (this.#isOver) giveBack()
    else this.#onReleased = giveBack
  }

  /** Refuses the slot. @param forget called when the connection is closed */
  refuse(refusal: ProxyError, forget: () => void): void {
    if (this.#isOver) forget()
    else {
      this.refusal = refusal
      this.#onReleased = forget
    }
  }

  release(): void {
    this.#isOver = true
    this.#onReleased?.()
    this.#onReleased = undefined
  }
}
