/**
 * Relays one request to one upstream, and the response back to the client, for any handler.
 *
 * Content is streamed both ways and never buffered as a whole. A failure before the response has begun becomes an error
 * response. A later failure closes the connection in such a way that no client takes a partial response for a complete
 * one. A request is sent again only if its sender says that it may be, and then on a new connection.
 *
 * There is a timeout for the upstream to read each piece of the request (RFC 9209 §2.3.11), and one for it to respond
 * after the last piece (RFC 9110 §15.6.5). Neither runs while the proxy is waiting for the client: for more content,
 * which the listener times, or for it to read the response, as many origins read no more of a request until their
 * response is read. Once the head of the response has been received and the whole request sent, there is no limit: a
 * response may pause for any length of time.
 */
import type { Socket } from 'node:net'
import { limitExceeded, ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { ContentConsumer, Exchange, RequestContent, ResponseContent } from '../exchange.js'
import { endToEndFields } from '../http/connection.js'
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { forwardedPhrase } from '../http/reason-phrase.js'
import { trailerFields } from '../http/trailers.js'
import type { Via } from '../http/via.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { keyOfReason } from '../limits/client-limits.js'
import { type CacheOutcome, type HandlerName, type Measured, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import type { Cancel, Flow, Retry, Sender, UpstreamEvents, UpstreamRequest } from '../upstream/sender.js'
import { Pump, type OpenTunnels } from '../tunnel/pump.js'

/** Fields that are generated from what is known of the response, so the received ones are dropped. */
const RESPONSE_DROPPED = fieldSet('content-length')

export interface RelayOptions {
  readonly sender: Sender
  /** This hop's Via. */
  readonly via: Via
  /** Makes the value of Date. */
  readonly date: () => string
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** The URL of the parent proxy that the request is sent to. */
  readonly parent?: string
  /** Milliseconds for which the upstream may read nothing of a request. */
  readonly requestIdleMs: number
  /** Milliseconds from the last byte of the request to the head of the response. */
  readonly responseTimeoutMs: number
  /** Each upgraded connection is registered here, so that it can be closed from outside. */
  readonly tunnels: OpenTunnels
}

/**
 * Sends a request and relays the response.
 * @returns the outcome; never rejects. If it has an error and no response has begun, the caller sends the error response.
 */
export function relay(
  handler: HandlerName,
  admitted: AdmittedExchange,
  request: UpstreamRequest,
  permit: Permit,
  options: RelayOptions,
): Promise<Outcome> {
  return new Promise(resolve => {
    new Relay(handler, admitted, request, permit, options, resolve).send(false)
  })
}

/** What the upstream has to do before the timeout. */
type Deadline = 'read request' | 'respond'

class Relay implements UpstreamEvents {
  readonly #handler: HandlerName
  readonly #admitted: AdmittedExchange
  readonly #exchange: Exchange
  readonly #request: UpstreamRequest
  readonly #permit: Permit
  readonly #options: RelayOptions
  readonly #resolve: (outcome: Outcome) => void
  readonly #started: number
  #cancel: Cancel | undefined
  #timer: NodeJS.Timeout | undefined
  #attempts = 0
  #sent = false
  #over = false
  #content: ResponseContent | undefined
  /** Whether the client reads the response more slowly than it arrives. */
  #isClientBehind = false
  #flow: Flow | undefined
  #status = 0
  /** What has been measured of the current attempt. */
  #measured: { -readonly [Name in keyof Measured]: Measured[Name] } = { bytesUp: 0, bytesDown: 0 }

  constructor(
    handler: HandlerName,
    admitted: AdmittedExchange,
    request: UpstreamRequest,
    permit: Permit,
    options: RelayOptions,
    resolve: (outcome: Outcome) => void,
  ) {
    const { content } = request
    this.#handler = handler
    this.#admitted = admitted
    this.#exchange = admitted.exchange
    this.#request = content === undefined ? request : { ...request, content: new TimedContent(content, this) }
    this.#permit = permit
    this.#options = options
    this.#resolve = resolve
    this.#started = options.now()
    this.#exchange.onAborted(aborted =>
      this.#finish(Outcome.aborted(this.#handler, aborted, this.#measured, this.#status)),
    )
  }

  send(fresh: boolean): void {
    if (this.#over) return
    this.#sent = false
    if (fresh) this.#measured = { bytesUp: 0, bytesDown: 0 }
    const attempt = ++this.#attempts
    const cancel = this.#options.sender.send(this.#request, this.#permit, this, fresh)
    // While it was being sent it may have failed and been sent again, or the exchange may have ended.
    if (attempt === this.#attempts) this.#cancel = cancel
    if (this.#over) cancel()
  }

  /** Starts the timeout for the upstream anew. */
  startTimer(deadline: Deadline): void {
    clearTimeout(this.#timer)
    if (this.#over) return
    const { requestIdleMs, responseTimeoutMs } = this.#options
    this.#timer = setTimeout(
      timedOut,
      deadline === 'respond' ? responseTimeoutMs : requestIdleMs,
      this,
      deadline,
    )
  }

  /** Stops the timeout: the proxy is not waiting for the upstream. */
  stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Counts content that was passed to the upstream. */
  countUp(bytes: number): void {
    this.#measured.bytesUp += bytes
  }

  /** The upstream has missed a deadline. */
  timedOut(deadline: Deadline): void {
    if (deadline === 'respond') this.#giveUp(noResponse())
    else if (this.#isClientBehind) this.startTimer(deadline)
    else this.#giveUp(requestNotRead())
  }

  connected(address: string, connectMs: number | undefined, isSent: boolean): void {
    this.#measured.address = address
    if (connectMs !== undefined) this.#measured.connectMs = connectMs
    this.#sent = isSent
    this.startTimer(isSent ? 'respond' : 'read request')
  }

  sent(): void {
    this.#sent = true
    if (this.#content === undefined) this.startTimer('respond')
    else this.stopTimer()
  }

  interim(head: ReceivedHead): void {
    if (this.#over) return
    const { status, reason, fields, minor } = head
    const forwarded = responseFields(fields, minor, this.#options.via)
    this.#exchange.sendInterim(status, forwardedPhrase(status, reason), forwarded)
  }

  cached(outcome: CacheOutcome): void {
    this.#measured.cache = outcome
  }

  responded(head: ReceivedHead, flow: Flow): void {
    if (this.#over) return
    const { via, date, now } = this.#options
    if (this.#sent) clearTimeout(this.#timer)
    this.#measured.firstByteMs = now() - this.#started
    this.#flow = flow
    this.#status = head.status
    this.#content = this.#exchange.respond({
      status: head.status,
      reason: forwardedPhrase(head.status, head.reason),
      lines: head.lines,
      // A stored response always has a Date.
      fields: responseFields(head.fields, head.minor, via, head.lines === undefined ? date : undefined),
      contentLength: head.contentLength,
    })
  }

  data(chunk: Uint8Array): void {
    const content = this.#content
    if (this.#over || content === undefined) return
    this.#measured.bytesDown += chunk.length
    if (content.write(chunk)) return
    this.#isClientBehind = true
    this.#flow?.pause()
    content.onDrain(() => {
      this.#isClientBehind = false
      if (!this.#sent && this.#timer !== undefined) this.startTimer('read request')
      this.#flow?.resume()
    })
  }

  ended(trailers: Fields): void {
    if (this.#over) return
    this.#content?.end(trailers.length === 0 ? trailers : trailerFields(trailers))
    this.#over = true
    clearTimeout(this.#timer)
    this.#resolve(Outcome.complete(this.#handler, this.#status, this.#measured))
  }

  failed(error: ProxyError, retry: Retry): void {
    if (this.#over) return
    this.stopTimer()
    if (this.#content !== undefined) {
      this.#content.abort()
      const outcome = Outcome.incomplete(
        this.#handler,
        this.#status,
        this.#measured,
        'upstream_incomplete',
        error,
      )
      this.#finish(outcome)
    } else if (retry === 'reused-connection') this.send(true)
    else this.#fail(error)
  }

  upgraded(head: ReceivedHead, socket: Socket, rest: Uint8Array): void {
    if (this.#over) {
      socket.destroy()
      return
    }
    this.stopTimer()
    const offered = this.#request.upgrade?.toLowerCase()
    const chosen = head.fields.members(FIELD.upgrade)
    if (!this.#sent || chosen.length !== 1 || chosen[0] !== offered) {
      socket.destroy()
      this.#fail(new ProxyError('http_upgrade_failed', 'switched to a protocol that was not offered'))
      return
    }
    this.#status = head.status
    this.#measured.firstByteMs = this.#options.now() - this.#started
    const switched = this.#exchange.switchTo(
      head.status,
      forwardedPhrase(head.status, head.reason),
      responseFields(head.fields, head.minor, this.#options.via, this.#options.date),
      this.#request.upgrade,
    )
    const pump = new Pump(
      { socket: switched.socket, early: [switched.rest] },
      { socket, early: [rest] },
      this.#options.now,
    )
    this.#options.tunnels.open(pump, this.#admitted, {
      address: socket.remoteAddress ?? '',
      parent: this.#options.parent,
      completed: this.#permit.grant.completed,
      connectMs: this.#measured.connectMs,
    })
    void pump.finished.then(({ bytesUp, bytesDown, reason }) => {
      const limit = keyOfReason(reason, this.#admitted.limits)
      const measured = { ...this.#measured, bytesUp, bytesDown, ...(limit === undefined ? {} : { limit }) }
      this.#finish(Outcome.complete(this.#handler, head.status, measured, reason))
    })
  }

  /** Fails the request after a timeout; the cache may send a stale response instead. */
  #giveUp(error: ProxyError): void {
    this.stopTimer()
    if (this.#content === undefined) {
      if (this.#cancel?.(error) === true) return
      this.#cancel = undefined
    }
    this.failed(error, 'never')
  }

  #fail(error: ProxyError): void {
    this.#finish(Outcome.failed(this.#handler, error, this.#measured))
  }

  /** Ends an exchange whose response is not complete, or that has become a tunnel. */
  #finish(outcome: Outcome): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    if (outcome.closeReason !== 'complete') this.#cancel?.()
    this.#resolve(outcome)
  }
}

/** The content of a request. Starts the relay's timer while the upstream does not read, and stops it otherwise. */
class TimedContent implements RequestContent, ContentConsumer {
  readonly #content: RequestContent
  readonly #relay: Relay
  #consumer: ContentConsumer | undefined
  #ended = false

  constructor(content: RequestContent, relay: Relay) {
    this.#content = content
    this.#relay = relay
  }

  get length(): number | undefined {
    return this.#content.length
  }

  get bytes(): number {
    return this.#content.bytes
  }

  start(consumer: ContentConsumer): void {
    this.#consumer = consumer
    if (this.#ended) this.#relay.startTimer('read request')
    else this.#relay.stopTimer()
    this.#content.start(this)
  }

  stop(): void {
    this.#content.stop()
  }

  resume(): void {
    if (this.#ended) this.#relay.startTimer('read request')
    else this.#relay.stopTimer()
    this.#content.resume()
  }

  data(chunk: Buffer): boolean {
    this.#relay.countUp(chunk.length)
    const takesMore = this.#consumer?.data(chunk) ?? true
    if (!takesMore) this.#relay.startTimer('read request')
    return takesMore
  }

  end(trailers: Fields): void {
    this.#ended = true
    this.#relay.startTimer('read request')
    this.#consumer?.end(trailers)
  }
}

function timedOut(relay: Relay, deadline: Deadline): void {
  relay.timedOut(deadline)
}

function requestNotRead(): ProxyError {
  const message = 'request not read by upstream in time'
  return limitExceeded('limits.body_idle', 'connection_write_timeout', message, { reason: 'body_idle' })
}

function noResponse(): ProxyError {
  return limitExceeded(
    'limits.response_timeout',
    'http_response_timeout',
    'no response from upstream in time',
  )
}

/**
 * The fields of a response for the client: those of the upstream connection removed, this hop's Via added (RFC 9110 §7.6).
 * @param minor the minor version of the received response
 * @param via this hop's Via
 * @param date makes the Date of a final response that has none (RFC 9110 §6.6.1); absent for an interim response
 */
export function responseFields(fields: FieldSection, minor: 0 | 1, via: Via, date?: () => string): Fields {
  const kept = endToEndFields(fields, RESPONSE_DROPPED)
  if (date !== undefined && !fields.has(FIELD.date)) kept.push('Date', date())
  kept.push('Via', via.members[minor])
  return kept
}
