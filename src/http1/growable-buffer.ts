/**
 * A buffer that doubles its capacity when needed, so that bytes which arrive one at a time and have to be kept are
 * neither many objects nor copied for every byte.
 */
export class GrowableBuffer {
  #buffer = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** A view of all bytes; later calls of `push` do not change it. */
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
