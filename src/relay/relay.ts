/**
 * Relay: one request to one upstream and its answer back, whichever handler asked for it.
 *
 * Content streams both ways and is never gathered. What goes wrong before the answer has begun becomes an error
 * response; what goes wrong after that ends the connection so that no client takes the half for the whole. A request
 * is sent a second time only when its method is idempotent, none of its content has been read, and either it went out
 * on a connection that had been open before and died without a byte of an answer (RFC 9110 §9.2.2, RFC 9112 §9.3.1), or
 * the fast sender could not take the answer that came: the origin has seen it then, but a second request of that kind
 * asks for nothing that the first did not, and the client would get no answer at all otherwise.
 */
import type { Socket } from 'node:net'
import { ProxyError, toProxyError } from '../errors.js'
import type { Exchange, ResponseContent } from '../exchange.js'
import { type Fields, listMembers } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import { forwardedPhrase } from '../http/reason-phrase.js'
import { trailerFields } from '../http/trailers.js'
import type { CloseReason, HandlerName, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import type {
  Again,
  Cancel,
  Flow,
  Sender,
  UpstreamEvents,
  UpstreamHead,
  UpstreamRequest,
} from '../upstream/sender.js'
import { interimFields, responseFields } from './message-fields.js'
import { Pump, type PumpLimits, type PumpRegistry } from './pump.js'
import { checkFinalHead, checkInterimHead, endsWithHead } from './response-head.js'
import { UpstreamClock, type UpstreamClockLimits } from './upstream-clock.js'

/** Interim responses passed on for one request; they wait for a slow client in memory, so there is an end to them. */
const MAX_INTERIM = 100

export interface RelayOptions extends UpstreamClockLimits {
  /** Sends requests without content fast. */
  readonly fast: Sender
  /** Sends every request exactly. */
  readonly exact: Sender
  /** This hop's name in Via. */
  readonly pseudonym: string
  readonly date: () => string
  readonly now: () => number
  /** The URL of the parent proxy that it is sent to. */
  readonly parent?: string
  /** What an upgraded connection is held to. */
  readonly pumpLimits: PumpLimits
  /** Told of each pump that starts, so that it can be ended from outside. */
  readonly pumps: PumpRegistry
}

/** @returns what became of it; never rejects. An outcome with an error and no begun response is still to be answered. */
export function relay(
  handler: HandlerName,
  exchange: Exchange,
  request: UpstreamRequest,
  permit: Permit,
  options: RelayOptions,
): Promise<Outcome> {
  return new Promise(resolve => {
    new Relay(handler, exchange, request, permit, options, resolve).send(false)
  })
}

class Relay implements UpstreamEvents {
  readonly #handler: HandlerName
  readonly #exchange: Exchange
  readonly #request: UpstreamRequest
  readonly #permit: Permit
  readonly #options: RelayOptions
  readonly #resolve: (outcome: Outcome) => void
  readonly #started: number
  readonly #clock: UpstreamClock
  #cancel: Cancel | undefined
  #attempts = 0
  #retried = false
  #exactly = false
  #sent = false
  #interim = 0
  #over = false
  #content: ResponseContent | undefined
  #flow: Flow | undefined
  #status = 0
  #bytesDown = 0
  #address: string | undefined
  #connectMs: number | undefined
  #firstByteMs: number | undefined

  constructor(
    handler: HandlerName,
    exchange: Exchange,
    request: UpstreamRequest,
    permit: Permit,
    options: RelayOptions,
    resolve: (outcome: Outcome) => void,
  ) {
    this.#handler = handler
    this.#exchange = exchange
    this.#clock = new UpstreamClock(options, error => this.failed(error, 'no'))
    const { content } = request
    this.#request = content === undefined ? request : { ...request, content: this.#clock.watch(content) }
    this.#permit = permit
    this.#options = options
    this.#resolve = resolve
    this.#started = options.now()
    exchange.onGone(() => this.#finish('client_gone'))
  }

  send(fresh: boolean): void {
    if (this.#over) return
    this.#address = undefined
    this.#connectMs = undefined
    this.#sent = false
    const { fast, exact } = this.#options
    const sender =
      this.#exactly || needsExactSender(this.#request) || fast.avoids(this.#permit) ? exact : fast
    const attempt = ++this.#attempts
    const cancel = sender.send(this.#request, this.#permit, this, fresh)
    // It may have failed while it was being sent, and another attempt be under way; or all of it may be over.
    if (attempt === this.#attempts) this.#cancel = cancel
    if (this.#over) cancel()
  }

  connected(address: string, connectMs: number | undefined): void {
    this.#address = address
    this.#connectMs = connectMs
    this.#clock.waitToSend()
  }

  sent(): void {
    this.#sent = true
    this.#clock.sent()
  }

  informed(head: UpstreamHead): void {
    if (this.#over) return
    try {
      checkInterimHead(head)
      if (++this.#interim > MAX_INTERIM)
        throw new ProxyError('http_protocol_error', 'too many interim responses')
    } catch (error) {
      this.#finish('failed', toProxyError(error))
      return
    }
    this.#exchange.inform(
      head.status,
      forwardedPhrase(head.status, head.reason),
      interimFields(head.fields, head.minor, this.#options.pseudonym),
    )
  }

  responded(head: UpstreamHead, flow: Flow): void {
    if (this.#over) return
    this.#clock.responded(this.#sent)
    this.#firstByteMs = this.#options.now() - this.#started
    let contentLength: number | undefined
    try {
      contentLength = checkFinalHead(head)
    } catch (error) {
      this.#finish('failed', toProxyError(error))
      return
    }
    this.#flow = flow
    this.#status = head.status
    this.#content = this.#exchange.respond({
      status: head.status,
      reason: forwardedPhrase(head.status, head.reason),
      fields: responseFields(head.fields, head.minor, this.#options.pseudonym, this.#options.date),
      contentLength,
    })
    // What an origin sends behind such a head is no part of the response, and no fault of it.
    if (endsWithHead(this.#request.method, head.status)) this.ended([])
  }

  data(chunk: Uint8Array): void {
    const content = this.#content
    if (this.#over || content === undefined) return
    this.#bytesDown += chunk.length
    if (content.write(chunk)) return
    this.#clock.holdBack()
    this.#flow?.pause()
    content.onDrain(() => {
      this.#clock.letGo()
      this.#flow?.resume()
    })
  }

  ended(trailers: Fields): void {
    if (this.#over) return
    this.#content?.end(trailerFields(trailers))
    this.#finish('complete')
  }

  failed(error: ProxyError, again: Again): void {
    if (this.#over) return
    this.#clock.stop()
    if (this.#content !== undefined) {
      this.#content.abort()
      this.#finish('upstream_incomplete', error)
    } else if (this.#maySendAgain(again)) {
      this.#exactly ||= again === 'exact'
      this.#retried ||= again === 'stale'
      this.send(true)
    } else this.#finish('failed', error)
  }

  upgraded(head: UpstreamHead, socket: Socket, rest: Uint8Array): void {
    if (this.#over) {
      socket.destroy()
      return
    }
    this.#clock.end()
    const offered = this.#request.upgrade?.toLowerCase()
    const chosen = listMembers(head.fields, 'upgrade').map(protocol => protocol.toLowerCase())
    if (!this.#sent || chosen.length !== 1 || chosen[0] !== offered) {
      socket.destroy()
      this.#finish(
        'failed',
        new ProxyError('http_upgrade_failed', 'switched to a protocol that was not offered'),
      )
      return
    }
    this.#status = head.status
    this.#firstByteMs = this.#options.now() - this.#started
    const switched = this.#exchange.switchTo(
      head.status,
      forwardedPhrase(head.status, head.reason),
      responseFields(head.fields, head.minor, this.#options.pseudonym, this.#options.date),
      this.#request.upgrade,
    )
    const pump = new Pump(
      { socket: switched.socket, early: [switched.rest] },
      { socket, early: [rest] },
      this.#options.pumpLimits,
      this.#options.now,
    )
    this.#options.pumps.add(pump, this.#exchange, {
      address: socket.remoteAddress ?? '',
      parent: this.#options.parent,
      completed: this.#permit.grant.completed,
      connectMs: this.#connectMs,
    })
    void pump.finished.then(result => {
      this.#bytesDown = result.bytesDown
      this.#finish(result.reason, undefined, result.bytesUp)
    })
  }

  #maySendAgain(again: Again): boolean {
    if (again === 'no' || (again === 'stale' ? this.#retried : this.#exactly)) return false
    return methodProperties(this.#exchange.facts.method).idempotent && this.#exchange.content.bytes === 0
  }

  #finish(closeReason: CloseReason, error?: ProxyError, bytesUp = this.#exchange.content.bytes): void {
    if (this.#over) return
    this.#over = true
    this.#clock.end()
    if (closeReason !== 'complete') this.#cancel?.()
    this.#resolve({
      handler: this.#handler,
      status: this.#status === 0 && error !== undefined ? error.status : this.#status,
      closeReason,
      bytesUp,
      bytesDown: this.#bytesDown,
      ...(this.#address === undefined ? {} : { address: this.#address }),
      ...(this.#connectMs === undefined ? {} : { connectMs: this.#connectMs }),
      ...(this.#firstByteMs === undefined ? {} : { firstByteMs: this.#firstByteMs }),
      ...(error === undefined ? {} : { error }),
    })
  }
}

/** What undici can not put on the wire as it came, and what may not be sent again if it can not take the answer. */
function needsExactSender(request: UpstreamRequest): boolean {
  return (
    !methodProperties(request.method).idempotent ||
    request.content !== undefined ||
    request.sendsZeroLength ||
    request.expectContinue ||
    request.upgrade !== undefined ||
    request.path === '*'
  )
}
