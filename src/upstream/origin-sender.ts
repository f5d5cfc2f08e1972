/**
 * The sender for one upstream of an origin. undici sends the requests that it handles without a change on the wire, our
 * own sender all others; the choice is made before anything is sent.
 *
 * Only the response shows whether an origin sends an unsolicited 100. That is allowed (RFC 9110 §15.2), but undici fails
 * such a request. It is then sent again with our own sender, and undici is no longer used for that upstream. So requests
 * that must not be sent twice are never given to undici (§9.2.2).
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
  /** Whether the upstream has sent a response that undici cannot parse. */
  #isUnreadable = false

  constructor(options: SenderOptions, undici: Undici) {
    this.#own = new Http1Sender(options)
    this.#undici = new UndiciSender(options, undici, (request, permit, events) => {
      this.#isUnreadable = true
      return this.#own.send(request, permit, events, true)
    })
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    // undici's pool cannot be asked for a new connection.
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

/** Whether undici writes the request as our own sender would, and it may be sent again if undici cannot parse the response. */
function isForUndici(request: UpstreamRequest): boolean {
  const { method, path, fields, content, sendsZeroLength, expectContinue, upgrade } = request
  const { idempotent, requestContent } = methodProperties(method)
  // undici writes a Content-Length of its own for a method whose content is defined.
  if (!idempotent || requestContent === 'defined') return false
  // undici closes its connection after HEAD.
  if (method === 'HEAD' || upgrade !== undefined || !path.startsWith('/')) return false
  // undici delays the head until there is content, sends no trailers, and omits a Content-Length of zero.
  if (content !== undefined || sendsZeroLength || expectContinue) return false
  // Our own sender removes Trailer if no trailers can follow (RFC 9110 §6.6.2).
  return !hasField(fields, 'trailer')
}
