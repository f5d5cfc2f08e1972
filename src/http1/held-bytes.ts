/**
 * Bytes that are kept until it is clear what becomes of them: in one buffer that doubles, so that many that come one at
 * a time are neither many objects nor copied for every byte.
 */
export class HeldBytes {
  #buffer = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** All of them, as a view that further ones leave as it is. */
  get all(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  push(chunk: Uint8Array): void {
    const length = this.#length + chunk.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length))
      this.#buffer.copy(larger, 0, 0, this.#length)
      this.#buffer = larger
    }
    this.#buffer.set(chunk, this.#length)
    this.#length = length
  }
}
