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
  /** Whether somebody else receives it as it comes. */
  isSharedWithOthersThan(receiver: Receiver): boolean
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
  /** Bytes of content passed on. */
  #received = 0
  #isPaused = false
  /** What has come since it was paused. */
  #backlog: Uint8Array[] = []
  #backlogBytes = 0
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

  data(chunk: Uint8Array): void {
    if (this.#isBehind) return
    if (!this.#isPaused) {
      this.#pass(chunk)
      return
    }
    this.#backlog.push(chunk)
    this.#backlogBytes += chunk.length
    if (this.#backlogBytes <= MAX_BACKLOG || !this.#source.isSharedWithOthersThan(this)) return
    this.#isBehind = true
    this.#backlog = []
  }

  /** @returns whether it has, or holds, all of the response */
  ended(trailers: Fields): boolean {
    if (this.#isBehind) return false
    this.#trailers = trailers
    if (!this.#isPaused) this.#end(trailers)
    return true
  }

  failed(error: ProxyError): void {
    clearTimeout(this.#timer)
    this.#isGone = true
    this.run.events.failed(error, 'never')
  }

  /**
   * Gets the rest of the content, which is complete by now, from the store; or from the origin, where it was not kept.
   * @param length bytes of all of it
   */
  catchUp(response: StoredResponse, kept: CacheEntry | undefined, length: number): void {
    if (this.#isGone) return
    const entry = kept ?? { key: this.run.asked.key, response, length }
    this.#delivery = new Delivery(this.run, entry, this.#received, length - 1)
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
    // It may be paused again by each piece.
    for (const chunk of this.#backlog.splice(0)) {
      if (this.isPaused) this.#backlog.push(chunk)
      else this.#pass(chunk)
    }
    this.#backlogBytes = this.#backlog.reduce((bytes, { length }) => bytes + length, 0)
    if (this.isPaused || this.#isGone) return
    if (this.#trailers === undefined) this.#source.flowChanged()
    else this.#end(this.#trailers)
  }

  #pass(chunk: Uint8Array): void {
    if (this.#isGone) return
    this.#received += chunk.length
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
