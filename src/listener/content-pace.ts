/**
 * How fast request content comes, over the time in which it was wanted: a client is not to blame for an upstream that takes
 * nothing. Looked at now and then, so that content itself costs nothing more; one window follows the other, and the first
 * is the time that a body has to come up to speed.
 */
export interface ContentLimits {
  /** Longest pause in request content, and longest time a client may take nothing of a response. */
  readonly bodyIdleMs: number
  /** Bytes a second of request content, over each `bodyIdleMs`; 0 for as slow as it likes. */
  readonly bodyMinRate: number
}

export class ContentPace {
  #lookedAt: number
  #wantedMs = 0
  #from: number

  /** @param bytes that have come so far */
  constructor(now: number, bytes: number) {
    this.#lookedAt = now
    this.#from = bytes
  }

  /**
   * @param minRate bytes a second
   * @param bytes that have come so far
   * @param isWanted whether content is waited for now
   * @returns whether a window has come to its end, in which fewer came than should have
   */
  isBelow(minRate: number, windowMs: number, now: number, bytes: number, isWanted: boolean): boolean {
    if (isWanted) this.#wantedMs += now - this.#lookedAt
    this.#lookedAt = now
    if (this.#wantedMs < windowMs) return false
    const isBelow = bytes - this.#from < (minRate * this.#wantedMs) / 1000
    this.#wantedMs = 0
    this.#from = bytes
    return isBelow
  }
}
