/** A monotonic clock that stands still until the test moves it. */
export class ManualClock {
  #ms = 1000

  readonly now = (): number => this.#ms

  advance(ms: number): void {
    this.#ms += ms
  }
}
