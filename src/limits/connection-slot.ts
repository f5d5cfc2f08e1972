/**
 * The place of one client connection, from the moment it was accepted until its socket is closed, whatever becomes of
 * it in between. One that has none is told so in answer to its first request; when too many wait to be told, the
 * connection is closed without a word.
 */
import type { ProxyError } from '../errors.js'

export interface ConnectionSlot {
  /** As long as it is not known whether it has a place: resolves when it is. Never rejects. */
  readonly pending: Promise<void> | undefined
  /** The answer to whatever is asked on this connection; undefined as long as it has a place. */
  readonly refusal: ProxyError | undefined
  /** The connection is closed. A second call does nothing. */
  release(): void
}

/** What a slot is made of: it is granted or refused, once. */
export class Slot implements ConnectionSlot {
  pending: Promise<void> | undefined
  refusal: ProxyError | undefined
  #onReleased: (() => void) | undefined
  #isOver = false

  /** It is not known yet. @param answered resolves once it was granted or refused, and never rejects */
  wait(answered: Promise<unknown>): void {
    this.pending = answered.then(() => {
      this.pending = undefined
    })
  }

  /** There is a place. @param giveBack called when it is free again */
  grant(giveBack: () => void): void {
    if (this.#isOver) giveBack()
    else this.#onReleased = giveBack
  }

  /** There is none. @param forget called when the connection is gone */
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
