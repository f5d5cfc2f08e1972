/**
 * The stored beginning of a representation in front of the rest of it, which comes from the origin (RFC 9111 §3.4). What
 * comes of the rest while the beginning is being read waits.
 */
import type { StoredHead } from '../../cache/stored-response.js'
import { ProxyError } from '../../errors.js'
import { type Fields, fieldValue } from '../../http/fields.js'
import { parseContentRange } from '../../http/range.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { Flow } from '../sender.js'
import type { CacheEntry, CacheStore, ContentReceiver, Reading } from './store.js'

export interface WholeReceiver {
  data(chunk: Uint8Array): void
  ended(trailers: Fields): void
  /** The beginning cannot be read. */
  lost(): void
}

export class StoredBeginning implements ContentReceiver, Flow {
  readonly #rest: Flow
  readonly #receiver: WholeReceiver
  readonly #reading: Reading
  /** Of the rest, in order. */
  readonly #waiting: Uint8Array[] = []
  #trailers: Fields | undefined
  #isRead = false
  #isPaused = false

  /** @param rest holds the rest back */
  constructor(store: CacheStore, entry: CacheEntry, rest: Flow, receiver: WholeReceiver) {
    this.#rest = rest
    this.#receiver = receiver
    rest.pause()
    this.#reading = store.read(entry, 0, entry.length - 1, this)
  }

  pause(): void {
    this.#isPaused = true
    if (this.#isRead) this.#rest.pause()
    else this.#reading.pause()
  }

  resume(): void {
    this.#isPaused = false
    if (this.#isRead) this.#rest.resume()
    else this.#reading.resume()
  }

  cancel(): void {
    this.#reading.cancel()
  }

  data(chunk: Uint8Array): void {
    this.#receiver.data(chunk)
  }

  ended(): void {
    this.#isRead = true
    for (const chunk of this.#waiting) this.#receiver.data(chunk)
    if (this.#trailers !== undefined) this.#receiver.ended(this.#trailers)
    else if (!this.#isPaused) this.#rest.resume()
  }

  failed(): void {
    this.#receiver.lost()
  }

  /** A piece of the rest. */
  restData(chunk: Uint8Array): void {
    if (this.#isRead) this.#receiver.data(chunk)
    else this.#waiting.push(chunk)
  }

  restEnded(trailers: Fields): void {
    if (this.#isRead) this.#receiver.ended(trailers)
    else this.#trailers = trailers
  }
}

export function restIncomplete(): ProxyError {
  return new ProxyError('http_response_incomplete', 'not all of the content behind what was stored')
}

/** Whether a part comes right behind another one. */
export function beginsBehind({ range }: StoredHead, { fields }: ReceivedHead): boolean {
  const received = parseContentRange(fieldValue(fields.list, 'content-range') ?? '')
  return range !== undefined && received?.first === range.last + 1
}
