/**
 * Finds the least recently used of many resources in one pass and with little memory: a heap of limited size with the most
 * recently used one on top, which is replaced when an older one is added.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A resource that may be evicted. */
export interface Candidate {
  /** The hexadecimal digest of its path. */
  readonly digest: string
  /** When it was last used, in milliseconds since the epoch. */
  readonly usedMs: number
  /** The counted bytes of its file. */
  readonly bytes: number
}

/** Entries that are taken out in one turn of the event loop, which takes less than a millisecond. */
const ENTRIES_AT_ONCE = 256

export class LeastRecentlyUsed {
  readonly #most: number
  readonly #heap: Candidate[] = []

  /** @param most maximum number of candidates to keep */
  constructor(most: number) {
    this.#most = most
  }

  add(candidate: Candidate): void {
    const heap = this.#heap
    if (heap.length < this.#most) {
      heap.push(candidate)
      this.#rise(heap.length - 1)
      return
    }
    if (candidate.usedMs >= (heap[0]?.usedMs ?? 0)) return
    heap[0] = candidate
    this.#sink()
  }

  /** Takes all of them out, the least recently used first. */
  async take(): Promise<Candidate[]> {
    const heap = this.#heap
    const taken: Candidate[] = []
    for (let top = heap[0]; top !== undefined; top = heap[0]) {
      taken.push(top)
      const last = heap.pop()
      if (last !== undefined && heap.length > 0) {
        heap[0] = last
        this.#sink()
      }
      if (taken.length % ENTRIES_AT_ONCE === 0) await nextTurn()
    }
    return taken.reverse()
  }

  #usedMs(at: number): number {
    return this.#heap[at]?.usedMs ?? Number.NEGATIVE_INFINITY
  }

  #rise(from: number): void {
    for (let at = from; at > 0; ) {
      const above = (at - 1) >> 1
      if (this.#usedMs(above) >= this.#usedMs(at)) return
      this.#swap(at, above)
      at = above
    }
  }

  #sink(): void {
    for (let at = 0; ; ) {
      const left = 2 * at + 1
      const below = this.#usedMs(left + 1) > this.#usedMs(left) ? left + 1 : left
      if (this.#usedMs(at) >= this.#usedMs(below)) return
      this.#swap(at, below)
      at = below
    }
  }

  #swap(one: number, other: number): void {
    const [first, second] = [this.#heap[one], this.#heap[other]]
    if (first === undefined || second === undefined) return
    this.#heap[one] = second
    this.#heap[other] = first
  }
}
