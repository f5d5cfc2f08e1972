/** How long a place stays empty before the next worker takes it: a worker that dies at once must not be all we do. */

const FIRST_MS = 100
const LONGEST_MS = 5000
/** A worker that has lived as long was well; what ended it has nothing to do with how the one before it ended. */
const HEALTHY_MS = 10_000

export class Backoff {
  #nextMs = FIRST_MS

  /**
   * @param livedMs how long the worker lived
   * @returns milliseconds to wait for the next one
   */
  delayMs(livedMs: number): number {
    if (livedMs >= HEALTHY_MS) this.#nextMs = FIRST_MS
    const delayMs = this.#nextMs
    this.#nextMs = Math.min(2 * delayMs, LONGEST_MS)
    return delayMs
  }
}
