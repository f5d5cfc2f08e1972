/**
 * Happy Eyeballs over addresses that were already vetted (RFC 8305 §4, §5).
 *
 * Address families alternate, IPv6 first. The next attempt starts when one fails or gets no reply for a while; the first
 * connection to be established wins, and the other attempts are closed. One time limit covers all attempts. The number
 * of attempts is limited: a name may have many addresses that all refuse at once, and one request must not cause a
 * connection attempt to each of them.
 */

import type { Socket } from 'node:net'
import type { CancelSignal } from '../exchange.js'
import type { IpAddress } from '../net/ip-address.js'
import { handleConnecting, SocketHandler } from '../net/socket-handler.js'

/** Milliseconds that an attempt gets before the next one is started in parallel (RFC 8305 §5). */
export const ATTEMPT_DELAY_MS = 250

/** How many addresses are tried, counted in the order in which they are tried. */
export const MAX_ATTEMPTS = 16

/** Alternates the address families and keeps the order within each (RFC 8305 §4). */
export function interleaveFamilies(addresses: readonly IpAddress[]): IpAddress[] {
  const six = addresses.filter(address => address.family === 6)
  const four = addresses.filter(address => address.family === 4)
  const ordered: IpAddress[] = []
  for (let i = 0; i < Math.max(six.length, four.length); i++) {
    const next = [six[i], four[i]]
    for (const address of next) if (address !== undefined) ordered.push(address)
  }
  return ordered
}

export interface RaceOptions<T> {
  /** Starts to connect to one address; the socket emits `connect` or `error`. */
  open(address: IpAddress): Socket
  /** Called after the connect system call: the socket has its descriptor. */
  attempted?(socket: Socket): void
  /** Milliseconds for all attempts together. */
  readonly timeoutMs: number
  /** Makes the error for a timeout. */
  timedOut(): Error
  /** Makes the result from the winner; `raceAttempts` throws what this throws. */
  connected(winner: Winner): T
  /** Translates the error of the last attempt, the timeout or the signal's reason before it is thrown. */
  failure?(error: unknown): unknown
  readonly signal: CancelSignal
}

/**
 * @param addresses at least one
 * @returns what `connected` makes of the winner; the `error` event of its socket keeps a listener
 * @throws what `failure` makes of the last attempt's error, the timeout, or the signal's reason
 */
export function raceAttempts<T>(addresses: readonly IpAddress[], options: RaceOptions<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    new Race<T>(addresses, options, resolve, reject).next()
  })
}

export interface Winner {
  readonly socket: Socket
  readonly address: IpAddress
}

class Race<T> implements Attempts {
  readonly #options: RaceOptions<T>
  readonly #resolve: (result: T) => void
  readonly #reject: (error: unknown) => void
  readonly #addresses: readonly IpAddress[]
  /** How many addresses have been tried so far. */
  #begun = 0
  /** The attempts in progress: nearly always just one. */
  readonly #attempts: Attempt[] = []
  readonly #limit: NodeJS.Timeout
  #delay: NodeJS.Timeout | undefined
  readonly #onAbort = (): void => this.#lose(this.#options.signal.reason)

  constructor(
    addresses: readonly IpAddress[],
    options: RaceOptions<T>,
    resolve: (result: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
    this.#addresses =
      addresses.length === 1 ? addresses : interleaveFamilies(addresses).slice(0, MAX_ATTEMPTS)
    this.#limit = setTimeout(() => this.#lose(options.timedOut()), options.timeoutMs)
    options.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (options.signal.aborted) this.#onAbort()
  }

  /** Starts the next attempt, if there is an address left. */
  next(): void {
    clearTimeout(this.#delay)
    const address = this.#addresses[this.#begun]
    if (address === undefined) return
    this.#begun += 1
    let socket: Socket
    try {
      socket = this.#options.open(address)
    } catch (error) {
      this.#failed(error)
      return
    }
    const attempt = new Attempt(this, socket, address)
    this.#attempts.push(attempt)
    // The handler stays until another one replaces it: an abandoned socket may still report an error.
    handleConnecting(socket, attempt)
    if (this.#isMore) this.#delay = setTimeout(() => this.next(), ATTEMPT_DELAY_MS)
  }

  get #isMore(): boolean {
    return this.#begun < this.#addresses.length
  }

  attempted(socket: Socket): void {
    this.#options.attempted?.(socket)
  }

  connected(attempt: Attempt): void {
    if (!this.#ended(attempt)) return
    this.#settle()
    try {
      this.#resolve(this.#options.connected(attempt))
    } catch (error) {
      this.#reject(error)
    }
  }

  failed(attempt: Attempt, error: Error): void {
    if (this.#ended(attempt)) this.#failed(error)
  }

  /** @returns false if the attempt had already been abandoned */
  #ended(attempt: Attempt): boolean {
    const index = this.#attempts.indexOf(attempt)
    if (index >= 0) this.#attempts.splice(index, 1)
    return index >= 0
  }

  #failed(error: unknown): void {
    if (this.#isMore) this.next()
    else if (this.#attempts.length === 0) this.#lose(error)
  }

  #lose(error: unknown): void {
    this.#settle()
    this.#reject(this.#options.failure === undefined ? error : this.#options.failure(error))
  }

  /** Closes every attempt that is still in progress. */
  #settle(): void {
    clearTimeout(this.#limit)
    clearTimeout(this.#delay)
    this.#options.signal.removeEventListener('abort', this.#onAbort)
    this.#begun = this.#addresses.length
    for (const { socket } of this.#attempts.splice(0)) socket.destroy()
  }
}

/** A settled promise, whose `then` queues a microtask. queueMicrotask costs more, as it creates an AsyncResource. */
const SOON = Promise.resolve()

/** Is notified of the progress of an attempt. */
interface Attempts {
  attempted(socket: Socket): void
  connected(attempt: Attempt): void
  failed(attempt: Attempt, error: Error): void
}

/** The attempt to connect to one address. */
class Attempt extends SocketHandler implements Winner {
  readonly socket: Socket
  readonly address: IpAddress
  readonly #race: Attempts

  constructor(race: Attempts, socket: Socket, address: IpAddress) {
    super()
    this.#race = race
    this.socket = socket
    this.address = address
  }

  /** Node emits this right before the connect system call. */
  override onConnectionAttempt(): void {
    void SOON.then(() => this.#race.attempted(this.socket))
  }

  override onConnect(): void {
    this.#race.connected(this)
  }

  override onError(error: Error): void {
    this.#race.failed(this, error)
  }
}
