/** A set that forgets: when one more comes than it holds, the one that was added first is dropped. */
export class BoundedSet<T> {
  readonly #values = new Set<T>()
  readonly #limit: number

  /** @param limit how many values it holds, at least 1 */
  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#values.size
  }

  has(value: T): boolean {
    return this.#values.has(value)
  }

  /** A value that is in it already becomes the newest. */
  add(value: T): void {
    this.#values.delete(value)
    this.#values.add(value)
    if (this.#values.size <= this.#limit) return
    for (const oldest of this.#values) {
      this.#values.delete(oldest)
      return
    }
  }
}
