/**
 * A map with a maximum number of entries, for keys that clients choose: a new entry replaces the oldest one. To keep the most
 * recently used entries instead of the most recently set ones, delete an entry before you set it again.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  /** Whether a new entry would replace another one. */
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
