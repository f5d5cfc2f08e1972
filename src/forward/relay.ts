/**
 * Relay: one request to one upstream and its answer back, whichever handler asked for it.
 *
 * Content streams both ways and is never gathered. What goes wrong before the answer has begun becomes an error
 * response; what goes wrong after that ends the connection so that no client takes the half for the whole. A request
 * is sent a second time when its sender says that it may be, and then on a fresh connection.
 *
 * An upstream has a time to take each piece of the request (RFC 9209 §2.3.11), and one to respond behind the last of
 * them (RFC 9110 §15.6.5). Neither runs while it is the client that is waited for: for more content, which the listener
 * times, or to take the response, without which many origins take no more of the request. Behind the head of the
 * response, and the last byte of the request, there is no limit: a response may be quiet for as long as it likes.
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
import { type CacheOutcome, type HandlerName, type Measured, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import type { Cancel, Flow, Retry, Sender, UpstreamEvents, UpstreamRequest } from '../upstream/sender.js'
import { Pump, type PumpLimits, type OpenTunnels } from '../tunnel/pump.js'

/** Written anew from what is known of the response, so the received one is left out. */
const RESPONSE_DROPPED = fieldSet('content-length')

export interface RelayOptions {
  readonly sender: Sender
  /** This hop, as it adds itself. */
  readonly via: Via
  readonly date: () => string
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** The URL of the parent proxy that it is sent to. */
  readonly parent?: string
  /** Milliseconds in which an upstream may take nothing of a request. */
  readonly requestIdleMs: number
  /** Milliseconds from the last byte of the request to the head of the response. */
  readonly responseTimeoutMs: number
  /** What an upgraded connection is held to. */
  readonly pumpLimits: PumpLimits
  /** Registers each pump that starts, so that it can be ended from outside. */
  readonly tunnels: OpenTunnels
}

/** @returns what became of it; never rejects. An outcome with an error and no begun response is still to be answered. */
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

/** What an upstream has to do within a time. */
type Awaited = 'request taken' | 'response'

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
  /** Whether the client does not take the response as fast as it comes. */
  #heldBack = false
  #flow: Flow | undefined
  #status = 0
  /** So far, of the attempt that is under way. */
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
    // It may have failed while it was being sent, and another attempt be under way; or all of it may be over.
    if (attempt === this.#attempts) this.#cancel = cancel
    if (this.#over) cancel()
  }

  /** The upstream has all of its time from now on for what is awaited of it. */
  wait(awaited: Awaited): void {
    clearTimeout(this.#timer)
    if (this.#over) return
    const { requestIdleMs, responseTimeoutMs } = this.#options
    this.#timer = setTimeout(late, awaited === 'response' ? responseTimeoutMs : requestIdleMs, this, awaited)
  }

  /** It is not the upstream that is waited for. */
  waitForNothing(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** So much more content was passed on. */
  passed(bytes: number): void {
    this.#measured.bytesUp += bytes
  }

  /** What was awaited has not come in time. */
  late(awaited: Awaited): void {
    if (awaited === 'response') this.#giveUp(noResponse())
    else if (this.#heldBack) this.wait(awaited)
    else this.#giveUp(requestNotTaken())
  }

  connected(address: string, connectMs: number | undefined, isSent: boolean): void {
    this.#measured.address = address
    if (connectMs !== undefined) this.#measured.connectMs = connectMs
    this.#sent = isSent
    this.wait(isSent ? 'response' : 'request taken')
  }

  sent(): void {
    this.#sent = true
    if (this.#content === undefined) this.wait('response')
    else this.waitForNothing()
  }

  informed(head: ReceivedHead): void {
    if (this.#over) return
    const { status, reason, fields, minor } = head
    const passed = responseFields(fields, minor, this.#options.via)
    this.#exchange.inform(status, forwardedPhrase(status, reason), passed)
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
      // What is stored has a Date.
      fields: responseFields(head.fields, head.minor, via, head.lines === undefined ? date : undefined),
      contentLength: head.contentLength,
    })
  }

  data(chunk: Uint8Array): void {
    const content = this.#content
    if (this.#over || content === undefined) return
    this.#measured.bytesDown += chunk.length
    if (content.write(chunk)) return
    this.#heldBack = true
    this.#flow?.pause()
    content.onDrain(() => {
      this.#heldBack = false
      if (!this.#sent && this.#timer !== undefined) this.wait('request taken')
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
    this.waitForNothing()
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
    this.waitForNothing()
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
      this.#options.pumpLimits,
      this.#options.now,
    )
    this.#options.tunnels.open(pump, this.#admitted, {
      address: socket.remoteAddress ?? '',
      parent: this.#options.parent,
      completed: this.#permit.grant.completed,
      connectMs: this.#measured.connectMs,
    })
    void pump.finished.then(({ bytesUp, bytesDown, reason }) => {
      const measured = { ...this.#measured, bytesUp, bytesDown }
      this.#finish(Outcome.complete(this.#handler, head.status, measured, reason))
    })
  }

  /** The upstream has had its time. */
  #giveUp(error: ProxyError): void {
    this.waitForNothing()
    if (this.#content === undefined) {
      if (this.#cancel?.(error) === true) return
      this.#cancel = undefined
    }
    this.failed(error, 'never')
  }

  #fail(error: ProxyError): void {
    this.#finish(Outcome.failed(this.#handler, error, this.#measured))
  }

  /** It ends before its answer is complete, or as a tunnel. */
  #finish(outcome: Outcome): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    if (outcome.closeReason !== 'complete') this.#cancel?.()
    this.#resolve(outcome)
  }
}

/** The content of a request, timed while whoever reads it takes nothing. */
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
    if (this.#ended) this.#relay.wait('request taken')
    else this.#relay.waitForNothing()
    this.#content.start(this)
  }

  stop(): void {
    this.#content.stop()
  }

  resume(): void {
    if (this.#ended) this.#relay.wait('request taken')
    else this.#relay.waitForNothing()
    this.#content.resume()
  }

  data(chunk: Buffer): boolean {
    this.#relay.passed(chunk.length)
    const takesMore = this.#consumer?.data(chunk) ?? true
    if (!takesMore) this.#relay.wait('request taken')
    return takesMore
  }

  end(trailers: Fields): void {
    this.#ended = true
    this.#relay.wait('request taken')
    this.#consumer?.end(trailers)
  }
}

function late(relay: Relay, awaited: Awaited): void {
  relay.late(awaited)
}

function requestNotTaken(): ProxyError {
  const message = 'request not taken by upstream in time'
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
 * The fields of a response as the client gets them: what belongs to one hop removed, this hop's Via added (RFC 9110 §7.6).
 * @param minor the minor version it came in
 * @param via this hop
 * @param date makes the Date of a final response that came without one (RFC 9110 §6.6.1); absent for an interim one
 */
export function responseFields(fields: FieldSection, minor: 0 | 1, via: Via, date?: () => string): Fields {
  const kept = endToEndFields(fields, RESPONSE_DROPPED)
  if (date !== undefined && !fields.has(FIELD.date)) kept.push('Date', date())
  kept.push('Via', via.members[minor])
  return kept
}
