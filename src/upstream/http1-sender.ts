/**
 * The HTTP/1.1 sender: puts each request on an idle connection to one of the permitted addresses, or on a new one.
 *
 * A connection serves the scheme and the authority that it was dialled for, and is used again only when its address is
 * in the permit of the request that asks. A request can be cancelled at any time, also by what is called back while it
 * is being sent.
 */
import { serializeHostPort } from '../http/authority.js'
import type { Permit } from '../policy/permit.js'
import type { Connection, Connects } from './dial.js'
import { upstreamFailure } from './failures.js'
import { ClientExchange, Http1Connection } from './http1-connection.js'
import { Pool, type UpstreamScheme } from './pool.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface SenderOptions {
  /** What the dialler's connections speak. */
  readonly scheme: UpstreamScheme
  readonly dialer: Connects
  /** Bytes of a response's header section. */
  readonly headerBytes: number
  /** Milliseconds an open connection waits for its next request. */
  readonly keepAliveMs: number
}

/** Fields of a response: far more than any has, and few enough that their pieces cost no more than their bytes. */
export const MAX_FIELDS = 2000

/** Turns of the event loop for which an idle connection is looked at before it is used. */
const LOOKS = 2

export class Http1Sender implements Sender {
  readonly #options: SenderOptions
  readonly #pool: Pool<Http1Connection>
  #isClosed = false

  constructor(options: SenderOptions) {
    this.#options = options
    this.#pool = new Pool(options.scheme)
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const exchange = new ClientExchange(request, events)
    let idle = fresh ? undefined : this.#pool.take(permit)
    while (idle?.isOpen === false) idle = this.#pool.take(permit)
    if (idle === undefined) this.#dial(exchange, permit)
    else {
      exchange.connection = idle
      exchange.looks = LOOKS
      setImmediate(this.#look, exchange, permit)
    }
    return exchange.cancel
  }

  retire(): void {
    this.#pool.retire()
  }

  close(): void {
    this.#isClosed = true
    this.#pool.close()
  }

  /**
   * Looks at a connection that was idle before a request is sent on it.
   *
   * What has arrived on it by now has to be read first: its end, because what is sent may not be sent twice, or bytes
   * that nobody asked for, which would be taken for the answer. Two turns see to that, as the first may be over before
   * the system is asked again what there is to read.
   */
  readonly #look = (exchange: ClientExchange, permit: Permit): void => {
    const { connection } = exchange
    if (exchange.isOver || connection === undefined) return
    exchange.looks -= 1
    if (exchange.looks > 0) setImmediate(this.#look, exchange, permit)
    else if (connection.isOpen) connection.carry(exchange)
    else this.#dial(exchange, permit)
  }

  #dial(exchange: ClientExchange, permit: Permit): void {
    const controller = new AbortController()
    exchange.connection = undefined
    exchange.dialling = controller
    this.#options.dialer.connect(permit, controller.signal).then(
      dialled => {
        exchange.dialling = undefined
        if (exchange.isOver) dialled.socket.destroy()
        else this.#open(dialled, permit).carry(exchange)
      },
      (error: unknown) => {
        if (exchange.isOver) return
        exchange.isOver = true
        const { host, port } = permit.grant
        exchange.events.failed(upstreamFailure(error, serializeHostPort(host, port)), 'never')
      },
    )
  }

  #open(dialled: Connection, permit: Permit): Http1Connection {
    const { headerBytes, keepAliveMs } = this.#options
    const limits = { headerBytes, headerFields: MAX_FIELDS }
    const key = this.#pool.keyOf(permit, dialled.address.text)
    const connection = new Http1Connection(dialled, key, { limits, keepAliveMs }, this.#pool)
    this.#pool.add(connection)
    if (this.#isClosed) connection.close()
    return connection
  }
}
