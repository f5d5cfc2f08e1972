/**
 * Which stored response is evicted next: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction",
 * SOSP 2023), with bytes where the paper counts objects.
 *
 * What is new waits in a small queue, and is evicted from it unless somebody asks for it again; only what was asked for
 * reaches the main queue. So what is requested once, a scan, passes through the small queue and leaves the rest as it is.
 * Of what left the small queue unasked a hash is remembered: if it is stored again soon it goes to the main queue at once.
 *
 * A hit writes one number; nothing is moved, allocated or looked up.
 */

// Zipf 0.7/0.9/1.1 with scans, cache of a tenth, hits in %: S3-FIFO 43/67/87, LRU 34/60/83, SIEVE 43/66/87, W-TinyLFU 50/70/87,
// which has the same hits of bytes there, and a third to a half fewer where a fifth of what is asked for is new (29/38, 49);
// it moves entries and writes a sketch at every hit besides (`npm run bench -- --only cache-store`).
const SMALL_SHARE = 0.1
/** Hits beyond are not counted: more of them would only keep for longer what is not asked for any more. */
const MAX_HITS = 3
/**
 * How many of the main queue an eviction puts back at most, so that it is over in microseconds although all were asked
 * for; then the one that is next is evicted as it is.
 */
const MAX_SECOND_CHANCES = 128
/** How many an eviction passes over at most before it has found none; the next one goes on behind them. */
const MAX_PASSED_OVER = 1024

/** What can be in one such policy at a time; the fields that change are the policy's. */
export abstract class Evictable {
  /** Of what it is stored under; of 32 bits. */
  readonly keyHash: number
  /** Bytes. */
  cost: number
  hits = 0
  /** How many read it: while there are any, evicting it would free nothing. */
  readings = 0
  queue: Queue | undefined = undefined
  /** Towards the one that is evicted next. */
  older: Evictable | undefined = undefined
  newer: Evictable | undefined = undefined

  constructor(keyHash: number, cost: number) {
    this.keyHash = keyHash
    this.cost = cost
  }
}

/** First in, first out, less those deleted meanwhile. */
class Queue {
  count = 0
  bytes = 0
  oldest: Evictable | undefined = undefined
  #newest: Evictable | undefined = undefined

  push(item: Evictable): void {
    item.queue = this
    item.older = this.#newest
    if (this.#newest === undefined) this.oldest = item
    else this.#newest.newer = item
    this.#newest = item
    this.count++
    this.bytes += item.cost
  }

  /** It refers to none of the others afterwards, which would outlive it in the old generation. */
  delete(item: Evictable): void {
    if (item.older === undefined) this.oldest = item.newer
    else item.older.newer = item.newer
    if (item.newer === undefined) this.#newest = item.older
    else item.newer.older = item.older
    item.older = undefined
    item.newer = undefined
    item.queue = undefined
    this.count--
    this.bytes -= item.cost
  }
}

export class S3Fifo<Item extends Evictable> {
  readonly #smallBytes: number
  readonly #small = new Queue()
  readonly #main = new Queue()
  readonly #ghosts = new GhostTable()

  /** @param maxBytes what all items cost together when they begin to be evicted */
  constructor(maxBytes: number) {
    this.#smallBytes = maxBytes * SMALL_SHARE
  }

  get count(): number {
    return this.#small.count + this.#main.count
  }

  get bytes(): number {
    return this.#small.bytes + this.#main.bytes
  }

  /**
   * @param item in no policy
   * @param proven whether it replaces one that was asked for
   */
  add(item: Item, proven: boolean): void {
    const known = this.#ghosts.take(item.keyHash)
    if (proven || known) this.#main.push(item)
    else this.#small.push(item)
  }

  /** It was asked for. */
  hit(item: Item): void {
    if (item.hits < MAX_HITS) item.hits++
  }

  /** Whether it was asked for, of late or often enough to be in the main queue. */
  isProven(item: Item): boolean {
    return item.hits > 0 || item.queue === this.#main
  }

  has(item: Item): boolean {
    return item.queue === this.#small || item.queue === this.#main
  }

  /** @param item in this policy */
  delete(item: Item): void {
    item.queue?.delete(item)
  }

  /** @param item in this policy */
  changeCost(item: Item, cost: number): void {
    if (item.queue !== undefined) item.queue.bytes += cost - item.cost
    item.cost = cost
  }

  /**
   * Those that are being read are passed over.
   * @returns the one to evict, which is in the policy no more; undefined when none was found
   */
  evict(): Item | undefined {
    while (this.#small.bytes > this.#smallBytes || this.#main.count === 0) {
      const item = this.#small.oldest
      if (item === undefined) return undefined
      if (item.hits === 0 && item.readings === 0) return this.#leaveSmall(item)
      this.#small.delete(item)
      item.hits = 0
      this.#main.push(item)
    }
    for (let chances = 0; chances <= MAX_PASSED_OVER; chances++) {
      const item = this.#main.oldest
      if (item === undefined) break
      this.#main.delete(item)
      if (item.readings === 0 && (item.hits === 0 || chances >= MAX_SECOND_CHANCES)) return item as Item
      if (item.hits > 0) item.hits--
      this.#main.push(item)
    }
    return this.#unreadOfSmall()
  }

  /** When the main queue is being read, what is new makes room although it has no more than its share. */
  #unreadOfSmall(): Item | undefined {
    let item = this.#small.oldest
    for (let passed = 0; item !== undefined && passed < MAX_PASSED_OVER; passed++) {
      if (item.readings === 0) return this.#leaveSmall(item)
      item = item.newer
    }
    return undefined
  }

  #leaveSmall(item: Evictable): Item {
    this.#small.delete(item)
    this.#ghosts.add(item.keyHash, this.count)
    return item as Item
  }
}

const WAYS = 4
const MIN_GHOSTS = 256

/**
 * Hashes of what was evicted of late, about as many as there are items: sets of four, the oldest of which makes room. A
 * Map would be made anew every time so many came and went. Two keys with one hash, or the hash 0, cost nothing but a place
 * in the wrong queue.
 */
class GhostTable {
  #hashes = new Uint32Array(MIN_GHOSTS)

  /** @param wanted how many hashes there should be room for */
  add(hash: number, wanted: number): void {
    if (wanted > this.#hashes.length) this.#grow()
    this.#insert(hash >>> 0)
  }

  /** @returns whether it was there; it is no more */
  take(hash: number): boolean {
    const start = this.#setOf(hash >>> 0)
    const at = this.#hashes.subarray(start, start + WAYS).indexOf(hash >>> 0)
    if (at === -1) return false
    this.#hashes[start + at] = 0
    return true
  }

  #setOf(hash: number): number {
    return (hash & (this.#hashes.length / WAYS - 1)) * WAYS
  }

  #insert(hash: number): void {
    const start = this.#setOf(hash)
    this.#hashes.copyWithin(start + 1, start, start + WAYS - 1)
    this.#hashes[start] = hash
  }

  #grow(): void {
    const before = this.#hashes
    this.#hashes = new Uint32Array(before.length * 2)
    // Within a set the newest comes first, so that it is inserted last.
    for (let i = before.length - 1; i >= 0; i--) {
      const hash = before[i] as number
      if (hash !== 0) this.#insert(hash)
    }
  }
}
