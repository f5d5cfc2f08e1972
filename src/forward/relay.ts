/**
 * Relay: one request to one upstream and its answer back, whichever handler asked for it.
 *
 * Content streams both ways and is never gathered. What goes wrong before the answer has begun becomes an error
 * response; what goes wrong after that ends the connection so that no client takes the half for the whole. A request
 * is sent a second time when its sender says that it may be, and then on a fresh connection.
 */
import type { Socket } from 'node:net'
import { ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Exchange, ResponseContent } from '../exchange.js'
import { FIELD } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { forwardedPhrase } from '../http/reason-phrase.js'
import { trailerFields } from '../http/trailers.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import { type HandlerName, type Measured, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import type { Cancel, Flow, Retry, Sender, UpstreamEvents, UpstreamRequest } from '../upstream/sender.js'
import { interimFields, responseFields } from './message-fields.js'
import { Pump, type PumpLimits, type OpenTunnels } from '../tunnel/pump.js'
import { UpstreamClock, type UpstreamClockLimits } from './upstream-clock.js'

export interface RelayOptions extends UpstreamClockLimits {
  readonly sender: Sender
  /** This hop's name in Via. */
  readonly pseudonym: string
  readonly date: () => string
  readonly now: () => number
  /** The URL of the parent proxy that it is sent to. */
  readonly parent?: string
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

class Relay implements UpstreamEvents {
  readonly #handler: HandlerName
  readonly #admitted: AdmittedExchange
  readonly #exchange: Exchange
  readonly #request: UpstreamRequest
  readonly #permit: Permit
  readonly #options: RelayOptions
  readonly #resolve: (outcome: Outcome) => void
  readonly #started: number
  readonly #clock: UpstreamClock
  #cancel: Cancel | undefined
  #attempts = 0
  #sent = false
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
    admitted: AdmittedExchange,
    request: UpstreamRequest,
    permit: Permit,
    options: RelayOptions,
    resolve: (outcome: Outcome) => void,
  ) {
    this.#handler = handler
    this.#admitted = admitted
    this.#exchange = admitted.exchange
    this.#clock = new UpstreamClock(options, error => this.failed(error, 'never'))
    const { content } = request
    this.#request = content === undefined ? request : { ...request, content: this.#clock.watch(content) }
    this.#permit = permit
    this.#options = options
    this.#resolve = resolve
    this.#started = options.now()
    this.#exchange.onAborted(aborted =>
      this.#finish(Outcome.aborted(this.#handler, aborted, this.#measured(), this.#status)),
    )
  }

  send(fresh: boolean): void {
    if (this.#over) return
    this.#address = undefined
    this.#connectMs = undefined
    this.#sent = false
    const attempt = ++this.#attempts
    const cancel = this.#options.sender.send(this.#request, this.#permit, this, fresh)
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

  informed(head: ReceivedHead): void {
    if (this.#over) return
    this.#exchange.inform(
      head.status,
      forwardedPhrase(head.status, head.reason),
      interimFields(head.fields, head.minor, this.#options.pseudonym),
    )
  }

  responded(head: ReceivedHead, flow: Flow): void {
    if (this.#over) return
    this.#clock.responded(this.#sent)
    this.#firstByteMs = this.#options.now() - this.#started
    this.#flow = flow
    this.#status = head.status
    this.#content = this.#exchange.respond({
      status: head.status,
      reason: forwardedPhrase(head.status, head.reason),
      fields: responseFields(head.fields, head.minor, this.#options.pseudonym, this.#options.date),
      contentLength: head.contentLength,
    })
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
    this.#finish(Outcome.complete(this.#handler, this.#status, this.#measured()))
  }

  failed(error: ProxyError, retry: Retry): void {
    if (this.#over) return
    this.#clock.stop()
    if (this.#content !== undefined) {
      this.#content.abort()
      const outcome = Outcome.brokenOff(
        this.#handler,
        this.#status,
        this.#measured(),
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
    this.#clock.end()
    const offered = this.#request.upgrade?.toLowerCase()
    const chosen = head.fields.members(FIELD.upgrade)
    if (!this.#sent || chosen.length !== 1 || chosen[0] !== offered) {
      socket.destroy()
      this.#fail(new ProxyError('http_upgrade_failed', 'switched to a protocol that was not offered'))
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
    this.#options.tunnels.open(pump, this.#admitted, {
      address: socket.remoteAddress ?? '',
      parent: this.#options.parent,
      completed: this.#permit.grant.completed,
      connectMs: this.#connectMs,
    })
    void pump.finished.then(({ bytesUp, bytesDown, reason }) => {
      const measured = { ...this.#measured(), bytesUp, bytesDown }
      this.#finish(Outcome.complete(this.#handler, head.status, measured, reason))
    })
  }

  #fail(error: ProxyError): void {
    this.#finish(Outcome.failed(this.#handler, error, this.#measured()))
  }

  #finish(outcome: Outcome): void {
    if (this.#over) return
    this.#over = true
    this.#clock.end()
    if (outcome.closeReason !== 'complete') this.#cancel?.()
    this.#resolve(outcome)
  }

  #measured(): Measured {
    return {
      bytesUp: this.#exchange.content.bytes,
      bytesDown: this.#bytesDown,
      ...(this.#address === undefined ? {} : { address: this.#address }),
      ...(this.#connectMs === undefined ? {} : { connectMs: this.#connectMs }),
      ...(this.#firstByteMs === undefined ? {} : { firstByteMs: this.#firstByteMs }),
    }
  }
}
