/** A monotonic clock that only the test advances. */
export class ManualClock {
  #ms = 1000

  readonly now = (): number => this.#ms

  advance(ms: number): void {
    this.#ms += ms
  }
}
