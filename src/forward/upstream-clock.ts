/**
 * How long an upstream may keep an exchange waiting, from the connection to the head of its response: for the next
 * piece of the request to be taken (RFC 9209 §2.3.11), and then for the response (RFC 9110 §15.6.5).
 *
 * The clock stands while it is the client that is waited for: for more content, which the listener times, or to take
 * the response, without which many origins take no more of the request. Behind the head of the response, and the last
 * byte of the request, there is no limit: a response may be quiet for as long as it likes.
 */
import { limitExceeded, type ProxyError } from '../errors.js'
import type { ContentConsumer, RequestContent } from '../exchange.js'

export interface UpstreamClockLimits {
  /** Milliseconds in which an upstream may take nothing of a request. */
  readonly requestIdleMs: number
  /** Milliseconds from the last byte of the request to the head of the response. */
  readonly responseTimeoutMs: number
}

export class UpstreamClock {
  readonly #limits: UpstreamClockLimits
  readonly #onLate: (error: ProxyError) => void
  #timer: NodeJS.Timeout | undefined
  #responded = false
  #heldBack = false
  #over = false

  /** @param onLate called when the upstream has taken too long, and not again before the clock is set anew */
  constructor(limits: UpstreamClockLimits, onLate: (error: ProxyError) => void) {
    this.#limits = limits
    this.#onLate = onLate
  }

  /** There is a connection, and nothing of the request on it yet; or something of it was taken, and more is to be. */
  waitToSend(): void {
    this.stop()
    if (this.#over) return
    this.#timer = setTimeout(() => {
      if (this.#heldBack) this.waitToSend()
      else this.#onLate(requestNotTaken())
    }, this.#limits.requestIdleMs)
  }

  /** The last byte of the request was taken. */
  sent(): void {
    this.stop()
    if (this.#responded || this.#over) return
    this.#timer = setTimeout(() => this.#onLate(noResponse()), this.#limits.responseTimeoutMs)
  }

  /** The head of the response is there. @param sent whether the request has been sent to its end */
  responded(sent: boolean): void {
    this.#responded = true
    if (sent) this.stop()
  }

  /** The client does not take the response as fast as it comes. */
  holdBack(): void {
    this.#heldBack = true
  }

  /** The client has caught up: the upstream has all of its time again. */
  letGo(): void {
    this.#heldBack = false
    if (this.#timer !== undefined) this.waitToSend()
  }

  /** Until it is set anew. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** For good. */
  end(): void {
    this.#over = true
    this.stop()
  }

  /** The same content, timed while whoever reads it takes nothing. */
  watch(content: RequestContent): RequestContent {
    let ended = false
    const wanted = (): void => {
      if (ended) this.waitToSend()
      else this.stop()
    }
    const watched = (consumer: ContentConsumer): ContentConsumer => ({
      data: chunk => {
        const more = consumer.data(chunk)
        if (!more) this.waitToSend()
        return more
      },
      end: trailers => {
        ended = true
        this.waitToSend()
        consumer.end(trailers)
      },
    })
    return {
      length: content.length,
      get bytes() {
        return content.bytes
      },
      start: consumer => {
        wanted()
        content.start(watched(consumer))
      },
      stop: () => content.stop(),
      resume: () => {
        wanted()
        content.resume()
      },
    }
  }
}

function requestNotTaken(): ProxyError {
  return limitExceeded(
    'limits.body_idle',
    'connection_write_timeout',
    'request not taken by upstream in time',
    {
      reason: 'body_idle',
    },
  )
}

function noResponse(): ProxyError {
  return limitExceeded(
    'limits.response_timeout',
    'http_response_timeout',
    'no response from upstream in time',
  )
}
