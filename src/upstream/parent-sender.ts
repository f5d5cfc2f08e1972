/**
 * Sends requests to a parent proxy as a proxy is sent them: in absolute-form, with the credentials that are for it
 * (RFC 9112 §3.2.2, RFC 9110 §11.7.2). Its 407 is about those, and so is never the client's to answer. A TRACE goes
 * without them: whoever answers it may send back all that it was sent (§9.3.8), and they are none of the client's.
 */
import type { Fields } from '../http/fields.js'
import type { Permit } from '../policy/permit.js'
import { parentRefusal } from './parent-refusal.js'
import type { Parent } from './parent.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export class ParentSender implements Sender {
  readonly #inner: Sender
  readonly #parent: Pick<Parent, 'url' | 'authorization'>

  /** @param inner sends over connections to the parent */
  constructor(inner: Sender, parent: Pick<Parent, 'url' | 'authorization'>) {
    this.#inner = inner
    this.#parent = parent
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const authorization = request.method === 'TRACE' ? undefined : this.#parent.authorization
    const fields: Fields =
      authorization === undefined ? request.fields : [...request.fields, 'Proxy-Authorization', authorization]
    const asked = { ...request, path: absoluteForm(request), fields }
    let refused = false
    let cancel: Cancel | undefined
    const responded: UpstreamEvents['responded'] = (head, flow) => {
      if (head.status !== 407) {
        events.responded(head, flow)
        return
      }
      refused = true
      cancel?.()
      events.failed(parentRefusal(this.#parent, head, request.method), 'never')
    }
    const watched: UpstreamEvents = {
      connected: (address, connectMs) => events.connected(address, connectMs),
      sent: () => events.sent(),
      informed: head => events.informed(head),
      responded,
      data: chunk => events.data(chunk),
      ended: trailers => events.ended(trailers),
      failed: (error, retry) => events.failed(error, retry),
      upgraded: (head, socket, rest) => events.upgraded(head, socket, rest),
    }
    cancel = this.#inner.send(asked, permit, watched, fresh)
    // It may have been answered while it was being sent.
    if (refused) cancel()
    return cancel
  }

  retire(): void {
    this.#inner.retire()
  }

  close(): void {
    this.#inner.close()
  }
}

/** What asks about a server as a whole names it by its authority alone (RFC 9112 §3.2.4). */
function absoluteForm({ host, path }: UpstreamRequest): string {
  return `http://${host}${path === '*' ? '' : path}`
}
