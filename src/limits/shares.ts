/**
 * Who may have how much of the proxy: connections and tunnels in all and of one client, requests a second, bytes an hour.
 *
 * One object for as long as the proxy runs, so that what is held outlasts a configuration; the limits are those of the
 * configuration in force. Nothing that stands is ever taken away for a count: what comes on top is refused. Only a
 * client that has used up its bytes loses its tunnels, which would otherwise pass on as much as they like.
 */
import type { Config } from '../config/schema.js'
import { serializeSize } from '../config/quantities.js'
import type { ProxyError } from '../errors.js'
import { type ConnectionSlot, Slot } from './connection-slot.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from './indexed-set.js'
import type { Ledger } from './ledger.js'
import { type LimitName, limitReached } from './refusals.js'

export type ShareLimits = Pick<
  Config['limits'],
  | 'connections'
  | 'connectionsPerClient'
  | 'tunnels'
  | 'tunnelsPerClient'
  | 'requestsPerSecond'
  | 'bytesPerHour'
>

/** An exchange as far as its bytes go. */
export interface Metered {
  /** Bytes of content or of a tunnel, in both directions, so far. */
  readonly bytesPassed: number
  /** Ends it if it is a tunnel. */
  stopTunnel(reason: 'bytes'): void
}

export interface Entrant {
  /** What limits for each client are counted under; asked for only when there is one. */
  readonly account: () => string
  /** Whether it is a tunnel, or may become one. */
  readonly tunnel: boolean
  readonly metered: Metered
}

/** What an exchange holds of the limits while it lasts. */
export interface Reservation {
  /** It is over. A second call does nothing. */
  release(): void
}

/** Of an exchange that nothing is counted of. */
export const UNCOUNTED: Reservation = Object.freeze({ release() {} })

/** Connections without a place that may wait to be told so. */
const MAX_REFUSED = 100
/** How often the bytes of what is open are booked. */
const METER_MS = 1000

export class Shares {
  #limits: ShareLimits
  readonly #ledger: Ledger
  readonly #onRejected: (limit: LimitName) => void
  readonly #open = new IndexedSet<OpenReservation>()
  #refused = 0
  #meteredAt = Number.NEGATIVE_INFINITY

  /** @param onRejected told of everything that is refused for a limit, connections that are closed without a word, too */
  constructor(limits: ShareLimits, ledger: Ledger, onRejected: (limit: LimitName) => void) {
    this.#limits = limits
    this.#ledger = ledger
    this.#onRejected = onRejected
  }

  /** Goes on with other limits; what is held stays held, however many that is. */
  configure(limits: ShareLimits): void {
    const metered = this.#limits.bytesPerHour !== undefined
    this.#limits = limits
    if (metered) return
    // What passed while nobody counted is not counted now.
    for (const reservation of this.#open) reservation.takeBytes()
  }

  /**
   * A connection was accepted.
   * @param source what connections from the same client have in common; undefined as long as nobody knows
   * @param shed closes it; called, now or later, when there are too many to tell each that it has no place
   */
  connect(source: string | undefined, shed: () => void): ConnectionSlot {
    const slot = new Slot()
    const ledger = this.#ledger
    const { connections, connectionsPerClient } = this.#limits
    const own = source === undefined ? undefined : `connections ${source}`
    const share = own === undefined || ledger.acquire(own, connectionsPerClient)
    const answered = whenKnown(share, mayHaveOne => {
      if (!mayHaveOne) return this.#refuse(slot, 'connections_per_client', connectionsPerClient, shed)
      return whenKnown(ledger.acquire('connections', connections), isRoom => {
        const giveBack = (): void => {
          if (own !== undefined) ledger.release(own)
        }
        if (isRoom) {
          slot.grant(() => {
            ledger.release('connections')
            giveBack()
          })
        } else {
          giveBack()
          this.#refuse(slot, 'connections', connections, shed)
        }
      })
    })
    if (answered instanceof Promise) slot.wait(answered)
    return slot
  }

  /**
   * An exchange asks to be let in, once policy has allowed it.
   * @returns a reservation to be released when it is over, or the refusal; a promise, which never rejects, only where the ledger
   *   gives one
   */
  enter({ account, tunnel, metered }: Entrant): Reservation | ProxyError | Promise<Reservation | ProxyError> {
    const { requestsPerSecond, bytesPerHour } = this.#limits
    if (!tunnel && requestsPerSecond === undefined && bytesPerHour === undefined) return UNCOUNTED
    const reservation = new OpenReservation(account(), metered, this.#end)
    return whenKnown(this.#askForBytes(reservation, bytesPerHour), noBytes => {
      if (noBytes !== undefined) return noBytes
      return whenKnown(this.#askForRate(reservation, requestsPerSecond), tooFast => {
        if (tooFast !== undefined) return tooFast
        return whenKnown(tunnel ? this.#askForTunnel(reservation) : undefined, noTunnel => {
          if (noTunnel !== undefined) return noTunnel
          this.#open.add(reservation)
          return reservation
        })
      })
    })
  }

  /**
   * Books what has passed since; called often with the current time. Of clients with tunnels it is asked how they
   * stand even if nothing has passed: the ledger may be shared, and the bytes be used up elsewhere.
   */
  meter(now: number): void {
    if (this.#limits.bytesPerHour === undefined || now < this.#meteredAt + METER_MS) return
    this.#meteredAt = now
    const passed = new Map<string, number>()
    for (const reservation of this.#open) {
      const bytes = reservation.takeBytes()
      if (bytes === 0 && !reservation.isTunnel) continue
      passed.set(reservation.account, (passed.get(reservation.account) ?? 0) + bytes)
    }
    for (const [account, bytes] of passed) this.#book(account, bytes)
  }

  #askForBytes(
    { account }: OpenReservation,
    limit: number | undefined,
  ): ProxyError | undefined | Promise<ProxyError | undefined> {
    if (limit === undefined) return undefined
    return whenKnown(this.#ledger.spend(`bytes ${account}`, 0, limit), wait =>
      wait > 0 ? this.#reject('bytes_per_hour', serializeSize(limit), wait) : undefined,
    )
  }

  #askForRate(
    { account }: OpenReservation,
    rate: number | undefined,
  ): ProxyError | undefined | Promise<ProxyError | undefined> {
    if (rate === undefined) return undefined
    return whenKnown(this.#ledger.take(`requests ${account}`, rate, rate), wait =>
      wait > 0 ? this.#reject('requests_per_second', String(rate), wait) : undefined,
    )
  }

  #askForTunnel(reservation: OpenReservation): ProxyError | undefined | Promise<ProxyError | undefined> {
    const ledger = this.#ledger
    const { tunnels, tunnelsPerClient } = this.#limits
    const own = `tunnels ${reservation.account}`
    return whenKnown(ledger.acquire(own, tunnelsPerClient), mayHaveOne => {
      if (!mayHaveOne) return this.#reject('tunnels_per_client', String(tunnelsPerClient))
      return whenKnown(ledger.acquire('tunnels', tunnels), isRoom => {
        if (isRoom) reservation.held = ['tunnels', own]
        else ledger.release(own)
        return isRoom ? undefined : this.#reject('tunnels', String(tunnels))
      })
    })
  }

  #reject(name: LimitName, value: string, waitSeconds?: number): ProxyError {
    this.#onRejected(name)
    return limitReached(name, value, waitSeconds)
  }

  #refuse(slot: Slot, name: LimitName, limit: number, shed: () => void): void {
    const refusal = this.#reject(name, String(limit))
    if (this.#refused >= MAX_REFUSED) {
      shed()
      return
    }
    this.#refused += 1
    slot.refuse(refusal, () => {
      this.#refused -= 1
    })
  }

  readonly #end = (reservation: OpenReservation): void => {
    if (!this.#open.delete(reservation)) return
    const bytes = reservation.takeBytes()
    if (bytes > 0) this.#book(reservation.account, bytes)
    for (const key of reservation.held) this.#ledger.release(key)
  }

  #book(account: string, bytes: number): void {
    const limit = this.#limits.bytesPerHour
    if (limit === undefined) return
    void whenKnown(this.#ledger.spend(`bytes ${account}`, bytes, limit), wait => {
      if (wait > 0) this.#stopTunnels(account)
    })
  }

  #stopTunnels(account: string): void {
    for (const reservation of this.#open)
      if (reservation.account === account) reservation.metered.stopTunnel('bytes')
  }
}

class OpenReservation implements Reservation, Indexed {
  index = NOT_INDEXED
  readonly account: string
  readonly metered: Metered
  /** The keys that are to be released. */
  held: readonly string[] = []
  readonly #end: (reservation: OpenReservation) => void
  #taken = 0

  constructor(account: string, metered: Metered, end: (reservation: OpenReservation) => void) {
    this.account = account
    this.metered = metered
    this.#end = end
  }

  get isTunnel(): boolean {
    return this.held.length > 0
  }

  /** The bytes that have passed since it was asked last. */
  takeBytes(): number {
    const passed = this.metered.bytesPassed
    const bytes = passed - this.#taken
    this.#taken = passed
    return bytes
  }

  release(): void {
    this.#end(this)
  }
}

/** Goes on with what is known: at once, unless it is a promise. */
function whenKnown<T, R>(answer: T | Promise<T>, next: (answer: T) => R | Promise<R>): R | Promise<R> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}
