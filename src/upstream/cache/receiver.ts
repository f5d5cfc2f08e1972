/** One who waits for a response that the cache has asked an origin for, or receives it. */
import type { StoredResponse } from '../../cache/freshness.js'
import type { ProxyError } from '../../errors.js'
import type { Fields } from '../../http/fields.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheOutcome } from '../../outcome.js'
import type { Cancel, Flow } from '../sender.js'
import type { CacheRun } from './cache.js'
import { Delivery } from './delivery.js'
import type { CacheEntry } from './store.js'

/** Where a response comes from that several receive. */
export interface ResponseSource {
  /** One more takes nothing now, or goes on. */
  flowChanged(): void
  /** @returns whether all who wait were answered with something stale, as the origin has had its time */
  replacesLate(): boolean
  /** Somebody does not wait any more. */
  left(receiver: Receiver): void
}

/** Bytes that one may be behind the fastest; those who share them are behind by the same ones. */
const MAX_BACKLOG = 1024 * 1024

export class Receiver implements Flow {
  readonly run: CacheRun
  readonly #source: ResponseSource
  /** What ends the answer where it does not come from the source. */
  #cancelElsewhere: Cancel | undefined
  #delivery: Delivery | undefined
  #timer: NodeJS.Timeout | undefined
  /** Bytes of content passed on, and the CRC-32 of them where it is computed. */
  #received = 0
  #sum: number | undefined
  #isPaused = false
  /** What has come since it was paused, each piece with the CRC-32 of all content up to its end. */
  #backlog: (readonly [chunk: Uint8Array, sum: number | undefined])[] = []
  #backlogBytes = 0
  /** Whether what has come since is being passed on: what comes meanwhile is behind it. */
  #isDraining = false
  /** Of the response, where all of it has come and is not passed on yet. */
  #trailers: Fields | undefined
  /** Whether it does not receive content as it comes any more, and gets the rest from the store. */
  #isBehind = false
  /** Whether it is answered in another way, or does not wait any more. */
  #isGone = false

  constructor(source: ResponseSource, run: CacheRun) {
    this.#source = source
    this.run = run
  }

  /** Waits for so many milliseconds, and goes its own way then. */
  wait(ms: number): void {
    this.#timer = setTimeout(() => this.goAlone(), ms)
  }

  /** What is passed on to the client while it waits for the response; undefined when it does not any more. */
  get events(): CacheRun['events'] | undefined {
    return this.#isGone ? undefined : this.run.events
  }

  readonly cancel: Cancel = late => {
    if (this.#cancelElsewhere !== undefined) return this.#cancelElsewhere(late) === true
    if (late !== undefined && !this.#isGone && this.#source.replacesLate()) return true
    this.#leave()
    this.#delivery?.cancel()
    return false
  }

  /** It is answered with what this one does. */
  goElsewhere(answer: (run: CacheRun) => Cancel): void {
    if (this.#isGone) return
    this.#leave()
    this.#cancelElsewhere = answer(this.run)
  }

  /** It begins anew, and waits for nobody. */
  goAlone(): void {
    this.goElsewhere(this.run.again)
  }

  respond(head: ReceivedHead, outcome: CacheOutcome): void {
    clearTimeout(this.#timer)
    this.run.events.cached(outcome)
    this.run.events.responded(head, this)
  }

  /** @param sum CRC-32 of all content up to the end of this piece, where it is computed */
  data(chunk: Uint8Array, sum: number | undefined): void {
    if (this.#isBehind) return
    if (!this.#isPaused && !this.#isDraining) {
      this.#pass(chunk, sum)
      return
    }
    this.#backlog.push([chunk, sum])
    this.#backlogBytes += chunk.length
  }

  /** Whether as much waits for it as may. */
  get isFull(): boolean {
    return this.#backlogBytes > MAX_BACKLOG
  }

  /** It gets no more content as it comes; what waits for it is given up. */
  fallBehind(): void {
    this.#isBehind = true
    this.#backlog = []
    this.#backlogBytes = 0
  }

  /** @returns whether it has, or holds, all of the response */
  ended(trailers: Fields): boolean {
    if (this.#isBehind) return false
    this.#trailers = trailers
    if (!this.#isPaused && !this.#isDraining) this.#end(trailers)
    return true
  }

  failed(error: ProxyError): void {
    clearTimeout(this.#timer)
    this.#isGone = true
    this.run.events.failed(error, 'never')
  }

  /**
   * Gets the rest of the content from the store, or from the origin where it was not kept.
   * @param length bytes of all of it; Infinity where that is not known
   */
  catchUp(response: StoredResponse, kept: CacheEntry | undefined, length: number): void {
    if (this.#isGone) return
    const entry = kept ?? { key: this.run.asked.key, response, length }
    const sum = this.#received === 0 ? 0 : this.#sum
    this.#delivery = new Delivery(this.run, entry, this.#received, length - 1, sum)
    if (this.#isPaused) this.#delivery.pause()
    if (kept === undefined) this.#delivery.failed()
    else this.#delivery.start()
  }

  /** Whether content has to wait before it can be passed on to it as it comes. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  get isBehind(): boolean {
    return this.#isBehind
  }

  pause(): void {
    this.#isPaused = true
    if (this.#delivery !== undefined) this.#delivery.pause()
    else this.#source.flowChanged()
  }

  resume(): void {
    this.#isPaused = false
    if (this.#delivery !== undefined) {
      this.#delivery.resume()
      return
    }
    // Each piece may pause it again, and more may come meanwhile.
    this.#isDraining = true
    while (!this.isPaused) {
      const waiting = this.#backlog.shift()
      if (waiting === undefined) break
      this.#backlogBytes -= waiting[0].length
      this.#pass(...waiting)
    }
    this.#isDraining = false
    if (this.#isGone) return
    if (this.#trailers === undefined) this.#source.flowChanged()
    else if (!this.isPaused) this.#end(this.#trailers)
  }

  #pass(chunk: Uint8Array, sum: number | undefined): void {
    if (this.#isGone) return
    this.#received += chunk.length
    this.#sum = sum
    this.run.events.data(chunk)
  }

  #end(trailers: Fields): void {
    this.#isGone = true
    this.run.events.ended(trailers)
  }

  #leave(): void {
    clearTimeout(this.#timer)
    if (this.#isGone) return
    this.#isGone = true
    this.#source.left(this)
  }
}
