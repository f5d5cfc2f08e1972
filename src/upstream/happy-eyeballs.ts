/**
 * Happy eyeballs over addresses that were already vetted (RFC 8305 §4, §5).
 *
 * Families alternate, IPv6 first; the next attempt starts when one fails or has been silent for a while, the first
 * to connect wins, and the others are closed. There is one limit over all, kept by the caller through the signal.
 * Only so many are tried: a name may have many addresses that all refuse at once, and one request must not become a
 * connection to each of them.
 */

import type { Socket } from 'node:net'
import type { CancelSignal } from '../exchange.js'
import type { IpAddress } from '../net/ip-address.js'
import { handleConnecting, SocketHandler } from '../net/socket-handler.js'

/** How long an attempt may be silent before the next begins beside it (RFC 8305 §5). */
export const ATTEMPT_DELAY_MS = 250

/** Of the addresses in the order in which they are tried, those behind so many are not. */
export const MAX_ATTEMPTS = 16

/** Alternates the families, the order within each kept (RFC 8305 §4). */
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
  /** Begins to connect to one address; its socket emits `connect` or `error`. */
  open(address: IpAddress): Socket
  /** Called when the system has been asked for the connection: the socket has its descriptor. */
  attempted?(socket: Socket): void
  /** Milliseconds over all attempts. */
  readonly timeoutMs: number
  /** The error when that time is over. */
  timedOut(): Error
  /** What the race is won for; what it throws is thrown. */
  connected(winner: Winner): T
  /** What is thrown for an error of the last attempt, for the time-out and for the signal's reason. */
  failure?(error: unknown): unknown
  readonly signal: CancelSignal
}

/**
 * @param addresses at least one
 * @returns what `connected` makes of the winner; the `error` event of its socket has a listener for good
 * @throws what `failure` makes of the last attempt's error, the time-out, or the signal's reason
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
  /** How many of them were begun with. */
  #begun = 0
  /** Those that are under way: never many, and nearly always one. */
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

  /** Begins the next attempt, if there is one. */
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
    // For good, unless somebody else handles its events: a socket that was given up may still report an error.
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

  /** @returns false when it was given up before */
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

  /** Ends every attempt that is still under way. */
  #settle(): void {
    clearTimeout(this.#limit)
    clearTimeout(this.#delay)
    this.#options.signal.removeEventListener('abort', this.#onAbort)
    this.#begun = this.#addresses.length
    for (const { socket } of this.#attempts.splice(0)) socket.destroy()
  }
}

/** A settled promise runs its callback at the end of the turn, for less than queueMicrotask, which makes a resource. */
const SOON = Promise.resolve()

/** What is notified of an attempt. */
interface Attempts {
  attempted(socket: Socket): void
  connected(attempt: Attempt): void
  failed(attempt: Attempt, error: Error): void
}

/** One address of a race. */
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

  /** Right before the system is asked. */
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
