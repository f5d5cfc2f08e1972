/**
 * The HTTP/1.1 sender: puts each request on an idle connection to one of the permitted addresses, or on a new one.
 *
 * A connection serves the scheme and the authority that it was dialled for, and is used again only when its address is
 * in the permit of the request that asks.
 */
import type { Permit } from '../policy/permit.js'
import { Attempt } from './attempt.js'
import { Http1Connection } from './http1-connection.js'
import type { Connects } from './dial.js'
import { Pool, type UpstreamScheme } from './pool.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface SenderOptions {
  /** What the dialler's connections speak. */
  readonly scheme: UpstreamScheme
  readonly dialer: Connects
  /** Bytes of a response's header section. */
  readonly maxHeaderBytes: number
  /** Milliseconds an open connection waits for its next request. */
  readonly keepAliveMs: number
}

/** Fields of a response: far more than any has, and few enough that their pieces cost no more than their bytes. */
export const MAX_FIELDS = 2000

export class Http1Sender implements Sender {
  readonly #options: SenderOptions
  readonly #pool: Pool<Http1Connection>
  #isClosed = false

  constructor(options: SenderOptions) {
    this.#options = options
    this.#pool = new Pool(options.scheme)
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const attempt = new Attempt()
    const { dialer, maxHeaderBytes, keepAliveMs } = this.#options
    const dial = (): void =>
      attempt.dial(dialer, permit, events, dialled => {
        const limits = { headerBytes: maxHeaderBytes, headerFields: MAX_FIELDS }
        const key = this.#pool.keyOf(permit, dialled.address.text)
        const connection = new Http1Connection(dialled, key, { limits, keepAliveMs }, this.#pool)
        this.#pool.add(connection)
        if (this.#isClosed) connection.close()
        return connection.send(request, events)
      })
    const idle = fresh ? undefined : this.#takeIdle(permit)
    if (idle === undefined) dial()
    else
      attempt.reuse(
        idle,
        events,
        () => idle.send(request, events),
        dial,
        () => this.#pool.give(idle),
      )
    return attempt.cancel
  }

  retire(): void {
    this.#pool.retire()
  }

  close(): void {
    this.#isClosed = true
    this.#pool.close()
  }

  #takeIdle(permit: Permit): Http1Connection | undefined {
    for (;;) {
      const idle = this.#pool.take(permit)
      if (idle === undefined || idle.isOpen) return idle
    }
  }
}
