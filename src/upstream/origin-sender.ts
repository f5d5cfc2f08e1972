/**
 * The sender of one upstream of an origin. undici sends what it can put on the wire and bring back as it came, our own
 * sender the rest; which of them it is, is chosen before anything is sent.
 *
 * What only the answer shows is that an origin sends 100 unasked, which is its right (RFC 9110 §15.2) and ends a request
 * for undici. From then on, nothing is sent to that upstream with undici; and the request that met it is sent again with
 * our sender. So what may not be sent twice never goes out with undici (§9.2.2).
 */
import { hasField } from '../http/fields.js'
import { methodProperties } from '../http/method.js'
import type { Permit } from '../policy/permit.js'
import { Http1Sender, type SenderOptions } from './http1-sender.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'
import { type Undici, UndiciSender } from './undici-sender.js'

export class OriginSender implements Sender {
  readonly #own: Http1Sender
  readonly #undici: UndiciSender
  /** Whether the upstream has sent what undici does not read. */
  #isUnreadable = false

  constructor(options: SenderOptions, undici: Undici) {
    this.#own = new Http1Sender(options)
    this.#undici = new UndiciSender(options, undici, (request, permit, events) => {
      this.#isUnreadable = true
      return this.#own.send(request, permit, events, true)
    })
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    // undici's pool cannot be asked for a fresh connection.
    if (fresh || this.#isUnreadable || !isForUndici(request)) {
      return this.#own.send(request, permit, events, fresh)
    }
    return this.#undici.send(request, permit, events)
  }

  retire(): void {
    this.#own.retire()
    this.#undici.retire()
  }

  close(): void {
    this.#own.close()
    this.#undici.close()
  }
}

/** Whether undici puts the request on the wire as our sender would, and it may be sent again when undici cannot read on. */
export function isForUndici(request: UpstreamRequest): boolean {
  const { method, path, fields, content, sendsZeroLength, expectContinue, upgrade } = request
  const { idempotent, requestContent } = methodProperties(method)
  // undici writes a Content-Length of its own for a method whose content is defined.
  if (!idempotent || requestContent === 'defined') return false
  // It closes its connection behind HEAD.
  if (method === 'HEAD' || upgrade !== undefined || !path.startsWith('/')) return false
  // It holds the head back until there is content, sends no trailers, and leaves a length of zero out.
  if (content !== undefined || sendsZeroLength || expectContinue) return false
  // Our sender takes it out, where no trailers can follow (RFC 9110 §6.6.2).
  return !hasField(fields, 'trailer')
}
