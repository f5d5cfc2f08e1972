/**
 * The sender of one upstream of an origin. undici sends what it can put on the wire and bring back as it came, our own
 * sender the rest; which of them it is, is chosen before anything is sent.
 *
 * What only the answer shows is that an origin sends 100 unasked, which is its right (RFC 9110 §15.2) and ends a request
 * for undici. From then on, nothing is sent to that upstream with undici; and the request that met it, when it may be
 * sent twice, is sent again with our sender (§9.2.2).
 */
import { hasField } from '../http/fields.js'
import type { Permit } from '../policy/permit.js'
import { isRepeatable } from './http1-connection.js'
import { Http1Sender, type SenderOptions } from './http1-sender.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'
import { type Undici, UndiciSender } from './undici-sender.js'

/**
 * What may go out with undici. HEAD is not among them, as undici closes its connection, and no extension method, as to
 * some undici adds a Content-Length.
 */
const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH'])

/** Methods that undici writes Content-Length: 0 for. */
const SAYS_NO_CONTENT: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

export class OriginSender implements Sender {
  readonly #own: Http1Sender
  readonly #undici: UndiciSender
  /** Whether the upstream has sent what undici does not read. */
  #isUnreadable = false

  constructor(options: SenderOptions, undici: Undici) {
    this.#own = new Http1Sender(options)
    this.#undici = new UndiciSender(options, undici, (request, permit, events) => {
      this.#isUnreadable = true
      return isRepeatable(request) ? this.#own.send(request, permit, events, true) : undefined
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

/** Whether undici puts the request on the wire as our sender would. */
export function isForUndici(request: UpstreamRequest): boolean {
  const { method, path, fields, content, sendsZeroLength, expectContinue, upgrade } = request
  if (expectContinue || upgrade !== undefined || !METHODS.has(method) || !path.startsWith('/')) return false
  // undici holds the head back until there is content, and sends no trailers.
  if (content !== undefined) return false
  if (sendsZeroLength && !SAYS_NO_CONTENT.has(method)) return false
  // Our sender takes it out, where no trailers can follow (RFC 9110 §6.6.2).
  return !hasField(fields, 'trailer')
}
