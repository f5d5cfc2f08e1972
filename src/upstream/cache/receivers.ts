/**
 * All who receive one response while it comes (RFC 9111 §4), and the pace at which it comes.
 *
 * While the response is being stored the fastest of them sets the pace: one that has fallen behind reads the rest from the
 * store. When the store has given up, as the content turned out too large, the rest comes from the origin, by a request of
 * its own. With a strong entity tag it is known to be of the same representation. Without one it is recognised by the bytes
 * that the client has had, whose CRC-32 is computed for that, and an origin that makes other bytes each time has no such
 * rest: so the slowest then sets the pace, and the others wait for it, five seconds in all.
 */
import { serializeCacheStatus } from '../../cache/cache-status.js'
import type { StoredResponse } from '../../cache/freshness.js'
import { decidePart } from '../../cache/partial.js'
import { matchesVary } from '../../cache/vary.js'
import { addToSum, deliver, hasStrongTag } from './delivery.js'
import type { Receiver } from './receiver.js'
import type { CacheEntry } from './store.js'

/** Milliseconds in all for which the receivers of a response wait for slower ones. */
const PATIENCE_MS = 5000

/** What is said of a stored response that is delivered in the end. */
export interface StoredAnswer {
  readonly result: 'revalidated' | 'stale_hit'
  /** The status that the origin has answered with; undefined where it has not. */
  readonly fwdStatus: number | undefined
  /** Who alone may have it; undefined where all may. */
  readonly whose: Receiver | undefined
}

export class Receivers {
  readonly #leader: Receiver
  readonly #all: Set<Receiver>
  readonly #changed: () => void
  /** Of the content so far; undefined where nobody needs it. */
  #sum: number | undefined
  #patienceMs = PATIENCE_MS
  #timer: NodeJS.Timeout | undefined
  #waitingSince = 0
  #areSeveral = false

  /**
   * @param leader whose request is sent
   * @param changed one has fallen behind that the others have waited for
   */
  constructor(leader: Receiver, changed: () => void) {
    this.#leader = leader
    this.#all = new Set([leader])
    this.#changed = changed
  }

  /** Whether there were several when the content began. */
  get areSeveral(): boolean {
    return this.#areSeveral
  }

  get size(): number {
    return this.#all.size
  }

  [Symbol.iterator](): IterableIterator<Receiver> {
    return this.#all.values()
  }

  add(receiver: Receiver): void {
    this.#all.add(receiver)
  }

  /** @returns whether it was there */
  delete(receiver: Receiver): boolean {
    return this.#all.delete(receiver)
  }

  /** The content follows, and nobody joins any more. */
  begin(response: StoredResponse | undefined): void {
    this.#areSeveral = this.#all.size > 1
    if (this.#areSeveral && response !== undefined && !hasStrongTag(response)) this.#sum = 0
  }

  /** @param isKept whether the content is being stored */
  data(chunk: Uint8Array, isKept: boolean): void {
    if (this.#sum !== undefined) this.#sum = addToSum(this.#sum, chunk)
    for (const receiver of this.#all) receiver.data(chunk, this.#sum)
    if (!this.#areSeveral || this.#waitsForSlow(isKept)) return
    for (const receiver of this.#all) this.#leaveBehind(receiver)
  }

  /**
   * Whether the origin is to be held back.
   * @param isKept whether the content is being stored
   */
  isHolding(isKept: boolean): boolean {
    const live = [...this.#all].filter(({ isBehind }) => !isBehind)
    const isPaused = live.length > 0 && live.every(receiver => receiver.isPaused)
    const isWaiting = !isPaused && this.#waitsForSlow(isKept) && live.some(receiver => receiver.isFull)
    if (isWaiting) this.#wait()
    else this.end()
    return isPaused || isWaiting
  }

  /**
   * Those that have fallen behind get the rest from the origin, and are receivers of this response no more.
   * @param length bytes of all of the content; Infinity where that is not known
   */
  recoverBehind(response: StoredResponse, length: number): void {
    for (const receiver of [...this.#all]) {
      if (!receiver.isBehind) continue
      this.#all.delete(receiver)
      receiver.catchUp(response, undefined, length)
    }
  }

  /** Delivers what is stored to the leader, whose request has selected it, and to all others whose requests select it. */
  deliverStored(
    entry: CacheEntry,
    response: StoredResponse,
    { result, fwdStatus, whose }: StoredAnswer,
  ): void {
    const now = this.#leader.run.cache.wallClock()
    for (const receiver of [...this.#all]) {
      const { asked } = receiver.run
      const isLeader = receiver === this.#leader
      const part = decidePart(asked, response, entry.length, now)
      const isFor = whose === undefined ? isLeader || matchesVary(response, asked.fields) : receiver === whose
      if (part.kind === 'miss' || !isFor) {
        receiver.goAlone()
        continue
      }
      const key = asked.showsKey ? asked.key.uri : undefined
      const status = serializeCacheStatus({ result, fwdStatus, key, collapsed: !isLeader })
      const outcome = { result, stored: false }
      receiver.goElsewhere(run => deliver(run, { entry, response, part, now, outcome, status }))
    }
  }

  /** Nobody waits for another one any more. */
  end(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#patienceMs -= performance.now() - this.#waitingSince
  }

  #waitsForSlow(isKept: boolean): boolean {
    return !isKept && this.#sum !== undefined && this.#patienceMs > 0
  }

  #wait(): void {
    if (this.#timer !== undefined) return
    this.#waitingSince = performance.now()
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#patienceMs = 0
      for (const receiver of this.#all) this.#leaveBehind(receiver)
      this.#changed()
    }, this.#patienceMs)
  }

  /** Unless it is the last one for which the content comes. */
  #leaveBehind(receiver: Receiver): void {
    if (!receiver.isFull) return
    for (const other of this.#all) {
      if (other === receiver || other.isBehind) continue
      receiver.fallBehind()
      return
    }
  }
}
