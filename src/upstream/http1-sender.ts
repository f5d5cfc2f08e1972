/**
 * The HTTP/1.1 sender: sends each request on an idle connection to one of the permitted addresses, or on a new one.
 *
 * A connection serves only the scheme and the authority that it was dialled for, and is reused only if its address is in
 * the permit of the request. A request can be cancelled at any time, also from its events while it is being sent.
 */
import { serializeHostPort } from '../http/authority.js'
import type { Permit } from '../policy/permit.js'
import type { Connection, ConnectionFactory } from './dial.js'
import { upstreamFailure } from './failures.js'
import { ClientExchange, Http1Connection } from './http1-connection.js'
import { Pool, type UpstreamScheme } from './pool.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

export interface SenderOptions {
  /** The scheme of the dialler's connections. */
  readonly scheme: UpstreamScheme
  readonly dialer: ConnectionFactory
  /** Maximum bytes of a response's header section. */
  readonly headerBytes: number
  /** Milliseconds that a connection may be idle. */
  readonly keepAliveMs: number
}

/** Maximum number of fields of a response: far more than real responses have, few enough to bound the memory they take. */
export const MAX_FIELDS = 2000

/** Turns of the event loop for which an idle connection is watched before it is reused. */
const TURNS_TO_WATCH = 2

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
      exchange.turnsToWatch = TURNS_TO_WATCH
      setImmediate(this.#watchIdle, exchange, permit)
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
   * Watches an idle connection before a request is sent on it.
   *
   * What has already arrived on it must be read first: its end, as the request may be one that must not be sent twice,
   * or unsolicited bytes, which would be taken for the response. This takes two turns of the event loop, because the
   * first may end before the system is polled for input again.
   */
  readonly #watchIdle = (exchange: ClientExchange, permit: Permit): void => {
    const { connection } = exchange
    if (exchange.isOver || connection === undefined) return
    exchange.turnsToWatch -= 1
    if (exchange.turnsToWatch > 0) setImmediate(this.#watchIdle, exchange, permit)
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
