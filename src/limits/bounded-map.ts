/**
 * A map for what strangers decide the keys of: it holds so many entries at most, and forgets the oldest for one more. To keep
 * those that were used last rather than those that were set last, delete an entry before it is set again.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  /** Whether one more entry costs another. */
  get isFull(): boolean {
    return this.size >= this.#max
  }

  override set(key: Key, value: Value): this {
    if (this.isFull && !this.has(key)) {
      for (const oldest of this.keys()) {
        this.delete(oldest)
        break
      }
    }
    return super.set(key, value)
  }
}
