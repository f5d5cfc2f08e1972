/**
 * All clients that receive one response while it arrives (RFC 9111 §4), and its pace.
 *
 * While the response is being stored, the fastest receiver sets the pace: one that has fallen behind reads the rest from the
 * store. If the store gives up because the content turns out too large, the rest comes from the origin, by another request.
 * A strong entity tag shows that it belongs to the same representation. Without one the bytes that the client has received
 * must be the same, which their CRC-32 shows. An origin that generates different bytes each time cannot provide that rest, so
 * then the slowest receiver sets the pace, and the others wait for it, five seconds in all.
 */
import { serializeCacheStatus } from '../../cache/cache-status.js'
import type { StoredResponse } from '../../cache/freshness.js'
import { decidePart } from '../../cache/partial.js'
import { matchesVary } from '../../cache/vary.js'
import { addToSum, deliver, hasStrongTag } from './delivery.js'
import type { Receiver } from './receiver.js'
import type { CacheEntry } from './store.js'

/** How long the receivers of a response wait for slower ones, in milliseconds in all. */
const PATIENCE_MS = 5000

/** How a stored response is delivered after the origin was asked. */
export interface StoredAnswer {
  readonly result: 'revalidated' | 'stale_hit'
  /** The status of the origin's response; undefined if there was none. */
  readonly fwdStatus: number | undefined
  /** The only receiver that may have it; undefined if all may. */
  readonly whose: Receiver | undefined
}

export class Receivers {
  readonly #leader: Receiver
  readonly #all: Set<Receiver>
  readonly #changed: () => void
  /** CRC-32 of the content so far; undefined if it is not needed. */
  #sum: number | undefined
  #patienceMs = PATIENCE_MS
  #timer: NodeJS.Timeout | undefined
  #waitingSince = 0
  #areSeveral = false

  /**
   * @param leader the receiver whose request is sent
   * @param changed called when a receiver that others waited for has fallen behind
   */
  constructor(leader: Receiver, changed: () => void) {
    this.#leader = leader
    this.#all = new Set([leader])
    this.#changed = changed
  }

  /** Whether there was more than one when the content began. */
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

  /** @returns false if it had left before */
  delete(receiver: Receiver): boolean {
    return this.#all.delete(receiver)
  }

  /** Call it before the first content; no receiver joins later. */
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
   * Removes the receivers that have fallen behind; they get the rest from the origin.
   * @param length bytes of the complete content; Infinity if unknown
   */
  recoverBehind(response: StoredResponse, length: number): void {
    for (const receiver of [...this.#all]) {
      if (!receiver.isBehind) continue
      this.#all.delete(receiver)
      receiver.catchUp(response, undefined, length)
    }
  }

  /** Delivers an entry to the leader, whose request has selected it, and to all others whose requests select it. */
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

  /** Stops waiting for slower receivers. */
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

  /** Unless it is the only one that still receives content as it arrives. */
  #leaveBehind(receiver: Receiver): void {
    if (!receiver.isFull) return
    for (const other of this.#all) {
      if (other === receiver || other.isBehind) continue
      receiver.fallBehind()
      return
    }
  }
}
