/**
 * A connection from a load balancer that has not said yet whose it is (The PROXY protocol, §2): nothing of it is
 * served before its header is whole, and without a good one it is closed without an answer. Counted, bounded in time
 * and ended like a connection that has sent no request head.
 */
import type { Socket } from 'node:net'
import { NOT_INDEXED } from '../limits/indexed-set.js'
import { HeldBytes } from '../http1/held-bytes.js'
import { parseProxyHeader, type ProxyHeader } from './proxy-header.js'
import type { ConnectedClient, ConnectionOwner, OwnedConnection } from './connection-owner.js'
import { Deadline } from './deadline.js'

export interface BalancerOwner extends Pick<ConnectionOwner, 'limits' | 'now' | 'released'> {
  /** There was no good header; `reason` is one clause. */
  headerFailed(balancerAddress: string, reason: string): void
}

export class BalancerConnection implements OwnedConnection {
  index = NOT_INDEXED
  readonly #socket: Socket
  readonly #balancer: ConnectedClient
  readonly #owner: BalancerOwner
  readonly #serve: (client: ConnectedClient) => void
  readonly #deadline: Deadline
  readonly #received = new HeldBytes()
  #isOver = false

  /**
   * @param balancer whose place is given back when there is no good header
   * @param serve takes the socket and the place over, with the address of its client; what follows the header waits in
   *   the socket
   */
  constructor(
    socket: Socket,
    balancer: ConnectedClient,
    owner: BalancerOwner,
    serve: (client: ConnectedClient) => void,
  ) {
    this.#socket = socket
    this.#balancer = balancer
    this.#owner = owner
    this.#serve = serve
    this.#deadline = new Deadline(owner)
    this.#deadline.set('head', owner.limits.headerTimeoutMs)
    for (const [event, listener] of this.#listeners) socket.on(event, listener)
  }

  checkDeadline(now: number): void {
    if (this.#deadline.takeExpired(now) !== 'none') this.#fail('not received in time')
  }

  drain(): void {
    this.destroy()
  }

  destroy(): void {
    this.#isOver = true
    this.#socket.destroy()
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#received.push(chunk)
    let header: ProxyHeader | undefined
    try {
      header = parseProxyHeader(this.#received.all)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      this.#fail(error.message)
      return
    }
    if (header !== undefined) this.#hand(header)
  }

  /** A connection that is closed without a word is what looks whether the port is open, and no news. */
  readonly #onEnd = (): void => {
    if (this.#received.length > 0) this.#fail('the connection ended before it was whole')
    else this.destroy()
  }

  readonly #onClose = (): void => {
    if (!this.#isOver && this.#received.length > 0) this.#fail('the connection ended before it was whole')
    this.#isOver = true
    this.#balancer.slot.release()
    this.#owner.released(this)
  }

  readonly #listeners = [
    ['data', this.#onData],
    ['end', this.#onEnd],
    ['error', (): void => void this.#socket.destroy()],
    ['close', this.#onClose],
  ] as const

  #hand({ length, source }: ProxyHeader): void {
    const socket = this.#socket
    this.#isOver = true
    this.#deadline.clear()
    socket.pause()
    for (const [event, listener] of this.#listeners) socket.off(event, listener)
    if (this.#received.length > length) socket.unshift(this.#received.all.subarray(length))
    const { address, slot } = this.#balancer
    this.#serve({ address: source?.text ?? address, slot })
    this.#owner.released(this)
  }

  #fail(reason: string): void {
    if (this.#isOver) return
    this.#owner.headerFailed(this.#balancer.address, reason)
    this.destroy()
  }
}
