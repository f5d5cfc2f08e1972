/** A client that waits for, or receives, a response that the cache has requested from an origin. */
import type { StoredResponse } from '../../cache/freshness.js'
import type { ProxyError } from '../../errors.js'
import type { Fields } from '../../http/fields.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheOutcome } from '../../outcome.js'
import type { Cancel, Flow } from '../sender.js'
import type { CacheRun } from './cache.js'
import { Delivery } from './delivery.js'
import type { CacheEntry } from './store.js'

/** The source of a response that several clients receive. */
export interface ResponseSource {
  /** A receiver has paused or resumed. */
  flowChanged(): void
  /** The origin took too long. @returns whether all waiting clients were answered with a stale response */
  replacesLate(): boolean
  /** A receiver has left. */
  left(receiver: Receiver): void
}

/** How many bytes may wait for one receiver; the buffers are shared with other receivers that are behind. */
const MAX_BACKLOG = 1024 * 1024

export class Receiver implements Flow {
  readonly run: CacheRun
  readonly #source: ResponseSource
  /** Cancels the answer if it does not come from the source. */
  #cancelElsewhere: Cancel | undefined
  #delivery: Delivery | undefined
  #timer: NodeJS.Timeout | undefined
  /** The number of bytes of content passed on, and their CRC-32 if it is computed. */
  #received = 0
  #sum: number | undefined
  #isPaused = false
  /** What has arrived since it was paused, each chunk with the CRC-32 of all content up to its end. */
  #backlog: (readonly [chunk: Uint8Array, sum: number | undefined])[] = []
  #backlogBytes = 0
  /** Whether the backlog is being passed on: chunks that arrive meanwhile come after it. */
  #isDraining = false
  /** Set when the response is complete but not passed on yet. */
  #trailers: Fields | undefined
  /** Whether it has fallen behind: it receives the rest from the store or by a request of its own. */
  #isBehind = false
  /** Whether it is answered in another way, or has left. */
  #isGone = false

  constructor(source: ResponseSource, run: CacheRun) {
    this.#source = source
    this.run = run
  }

  /** Starts over by itself if there is no response after so many milliseconds. */
  wait(ms: number): void {
    this.#timer = setTimeout(() => this.goAlone(), ms)
  }

  /** What the client is notified of while it waits for the response; undefined after it has left. */
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

  /** Has the client answered by a function instead. */
  goElsewhere(answer: (run: CacheRun) => Cancel): void {
    if (this.#isGone) return
    this.#leave()
    this.#cancelElsewhere = answer(this.run)
  }

  /** Starts over without sharing the response to another request. */
  goAlone(): void {
    this.goElsewhere(this.run.again)
  }

  respond(head: ReceivedHead, outcome: CacheOutcome): void {
    clearTimeout(this.#timer)
    this.run.events.cached(outcome)
    this.run.events.responded(head, this)
  }

  /** @param sum CRC-32 of all content up to the end of this chunk, if it is computed */
  data(chunk: Uint8Array, sum: number | undefined): void {
    if (this.#isBehind) return
    if (!this.#isPaused && !this.#isDraining) {
      this.#pass(chunk, sum)
      return
    }
    this.#backlog.push([chunk, sum])
    this.#backlogBytes += chunk.length
  }

  /** Whether more waits for it than the limit. */
  get isFull(): boolean {
    return this.#backlogBytes > MAX_BACKLOG
  }

  /** Discards what waits for it; it receives the rest in another way. */
  fallBehind(): void {
    this.#isBehind = true
    this.#backlog = []
    this.#backlogBytes = 0
  }

  /** @returns false if it has fallen behind and lacks content */
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
   * Delivers the rest of the content from the store, or from the origin if it was not kept.
   * @param length bytes of the complete content; Infinity if unknown
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

  /** Whether the client accepts no content at present. */
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
    // Each chunk may pause it again, and more may arrive meanwhile.
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
