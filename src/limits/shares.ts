/**
 * Enforces the limits on connections and tunnels, in total and for each client, on requests a second and on bytes an hour.
 *
 * The object exists as long as the proxy runs, because reservations outlive a configuration; the limits are those of the
 * configuration in force. Established connections and tunnels are never closed because of a count: new ones are refused.
 * Only a client that has used up its bytes loses its tunnels, which could otherwise transfer any amount.
 */
import type { Config } from '../config/schema.js'
import { serializeSize } from '../config/quantities.js'
import type { ProxyError } from '../errors.js'
import { type ClientLimits, keyOfEntry, keyOfLimit } from './client-limits.js'
import { type ConnectionSlot, Slot } from './connection-slot.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from './indexed-set.js'
import type { Ledger } from './ledger.js'
import { type LimitName, limitReached } from './refusals.js'

/** The limits that all clients share, and the limit for connections whose client is not known from the address. */
export type ShareLimits = Pick<Config['limits'], 'connections' | 'connectionsPerClient' | 'tunnels'>

/** An exchange whose bytes are counted. */
export interface Metered {
  /** Bytes of content or of the tunnel so far, in both directions together. */
  readonly bytesPassed: number
  /** Closes it if it is a tunnel. */
  stopTunnel(reason: 'bytes'): void
}

/** An exchange that needs a reservation. */
export interface ReservationRequest {
  /** The account that limits for each client are counted under. */
  readonly account: string
  readonly limits: ClientLimits
  /** Whether the exchange is a tunnel, or may become one. */
  readonly tunnel: boolean
  readonly metered: Metered
}

/** Capacity that is reserved for one exchange. */
export interface Reservation {
  /** To be called at the end of the exchange. A second call does nothing. */
  release(): void
}

/** One question to the ledger: for a unit of a limit, for a token of a rate, or whether bytes are left. */
interface Demand {
  readonly name: LimitName
  /** The key in the ledger. */
  readonly key: string
  readonly limit: number
  /** The client that the limit is for; undefined for a limit of all clients. */
  readonly of?: Pick<ClientLimits, 'client' | 'own'> | undefined
}

/** Most refused connections that may wait for their first request. */
const MAX_REFUSED = 100
/** How often the bytes of open exchanges are counted. */
const METER_MS = 1000

/** The key for the tunnels of a process, or of all workers. */
export const TUNNELS = 'tunnels'

export class Shares {
  #limits: ShareLimits
  /** The limits of each entry of `clients` since the last reload, by its name. */
  #clients: ReadonlyMap<string, ClientLimits> = new Map()
  /** Whether bytes of an open exchange are counted. */
  #counts = false
  readonly #ledger: Ledger
  readonly #onRejected: (limit: LimitName) => void
  readonly #open = new IndexedSet<OpenReservation>()
  #refused = 0
  #meteredAt = Number.NEGATIVE_INFINITY

  /** @param onRejected called for everything that a limit refuses, including connections that are closed without a response */
  constructor(limits: ShareLimits, ledger: Ledger, onRejected: (limit: LimitName) => void) {
    this.#limits = limits
    this.#ledger = ledger
    this.#onRejected = onRejected
  }

  /**
   * Replaces the limits, also those of open exchanges. Reservations are kept, even if they exceed the new limits.
   * @param clients the limits of each entry, by name; limits of an entry that no longer exists are kept
   */
  configure(limits: ShareLimits, clients: ReadonlyMap<string, ClientLimits>): void {
    this.#limits = limits
    this.#clients = clients
    this.#counts = false
    for (const reservation of this.#open) {
      // Bytes from before the limit was set are not counted.
      if (reservation.limits.bytesPerHour === undefined) reservation.takeBytes()
      reservation.limits = this.#inForce(reservation.limits)
      this.#counts ||= reservation.limits.bytesPerHour !== undefined
    }
  }

  /**
   * Reserves a slot for a connection that was accepted.
   * @param source identifies connections of the same client; undefined if the client is not known yet
   * @param shed closes the connection; called, now or later, if too many refused connections are waiting
   * @param client the limits of the client, if the address alone identifies it
   */
  connect(source: string | undefined, shed: () => void, client?: ClientLimits): ConnectionSlot {
    const slot = new Slot()
    const { connections } = this.#limits
    const { connectionsPerClient: limit } = client ?? this.#limits
    const inAll: Demand = { name: 'connections', key: 'connections', limit: connections }
    const demands: Demand[] =
      source === undefined
        ? [inAll]
        : [{ name: 'connections_per_client', key: `connections ${source}`, limit, of: client }, inAll]
    const held: string[] = []
    const answered = whenKnown(this.#reserve(demands, held), refusal => {
      if (refusal === undefined) slot.grant(() => this.#release(held))
      else this.#refuse(slot, refusal, shed)
    })
    if (answered instanceof Promise) slot.wait(answered)
    return slot
  }

  /**
   * Reserves capacity for an exchange that policy has allowed.
   * @returns a reservation, to be released at the end of the exchange, or the refusal; a promise, which is never rejected,
   *   only if the ledger returns one
   */
  enter({
    account,
    limits,
    tunnel,
    metered,
  }: ReservationRequest): Reservation | ProxyError | Promise<Reservation | ProxyError> {
    const of = this.#inForce(limits)
    const { requestsPerSecond, bytesPerHour, tunnels, tunnelsPerClient } = of
    const demands: Demand[] = []
    if (bytesPerHour !== undefined)
      demands.push({ name: 'bytes_per_hour', key: `bytes ${account}`, limit: bytesPerHour, of })
    if (requestsPerSecond !== undefined)
      demands.push({ name: 'requests_per_second', key: `requests ${account}`, limit: requestsPerSecond, of })
    if (tunnel) {
      demands.push({ name: 'tunnels_per_client', key: `tunnels ${account}`, limit: tunnelsPerClient, of })
      if (tunnels !== undefined)
        demands.push({ name: 'client_tunnels', key: `tunnels of ${of.client}`, limit: tunnels, of })
      demands.push({ name: 'tunnels', key: TUNNELS, limit: this.#limits.tunnels })
    }
    const reservation = new OpenReservation(account, of, metered, this.#end)
    return whenKnown(this.#reserve(demands, reservation.held), refusal => {
      if (refusal !== undefined) return refusal
      this.#open.add(reservation)
      this.#counts ||= bytesPerHour !== undefined
      return reservation
    })
  }

  /**
   * Counts the bytes since the last call; to be called often, with the current time. For clients with tunnels it asks the
   * ledger even if there were none, because the bytes may have been used up in another process.
   */
  meter(now: number): void {
    if (!this.#counts || now < this.#meteredAt + METER_MS) return
    this.#meteredAt = now
    const passed = new Map<string, { limit: number; bytes: number }>()
    for (const reservation of this.#open) {
      const { account, limits } = reservation
      if (limits.bytesPerHour === undefined) continue
      const bytes = reservation.takeBytes()
      if (bytes === 0 && !reservation.isTunnel) continue
      const sum = passed.get(account) ?? { limit: limits.bytesPerHour, bytes: 0 }
      sum.bytes += bytes
      passed.set(account, sum)
    }
    for (const [account, { limit, bytes }] of passed) this.#book(account, limit, bytes)
  }

  /** The limits of the same entry in the configuration in force; an exchange may have begun under another one. */
  #inForce(limits: ClientLimits): ClientLimits {
    return this.#clients.get(limits.client) ?? limits
  }

  /**
   * Asks the ledger for one demand after the other, until one is refused.
   * @param held receives the keys that have to be released; it is empty if a demand was refused
   */
  #reserve(
    demands: readonly Demand[],
    held: string[],
    index = 0,
  ): ProxyError | undefined | Promise<ProxyError | undefined> {
    const demand = demands[index]
    if (demand === undefined) return undefined
    return whenKnown(this.#ask(demand), answer => {
      if (answer === true) held.push(demand.key)
      if (answer === true || answer === 0) return this.#reserve(demands, held, index + 1)
      this.#release(held.splice(0))
      return this.#reject(demand, answer === false ? undefined : answer)
    })
  }

  /** @returns whether the demand is met; for rates and bytes, the seconds until it may be, 0 if it is met now */
  #ask({ name, key, limit }: Demand): boolean | number | Promise<boolean | number> {
    switch (name) {
      case 'bytes_per_hour':
        return this.#ledger.spend(key, 0, limit)
      case 'requests_per_second':
        return this.#ledger.take(key, limit, limit)
      default:
        return this.#ledger.acquire(key, limit)
    }
  }

  #release(held: readonly string[]): void {
    for (const key of held) this.#ledger.release(key)
  }

  #reject({ name, limit, of }: Demand, waitSeconds: number | undefined): ProxyError {
    this.#onRejected(name)
    const value = name === 'bytes_per_hour' ? serializeSize(limit) : String(limit)
    return limitReached(name, value, { waitSeconds, key: of && keyOf(name, of) })
  }

  #refuse(slot: Slot, refusal: ProxyError, shed: () => void): void {
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
    const { account, limits, held } = reservation
    const bytes = reservation.takeBytes()
    if (bytes > 0 && limits.bytesPerHour !== undefined) this.#book(account, limits.bytesPerHour, bytes)
    this.#release(held)
  }

  #book(account: string, limit: number, bytes: number): void {
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
  /** The limits in force for it. */
  limits: ClientLimits
  readonly metered: Metered
  /** The keys that have to be released. */
  readonly held: string[] = []
  readonly #end: (reservation: OpenReservation) => void
  #taken = 0

  constructor(
    account: string,
    limits: ClientLimits,
    metered: Metered,
    end: (reservation: OpenReservation) => void,
  ) {
    this.account = account
    this.limits = limits
    this.metered = metered
    this.#end = end
  }

  get isTunnel(): boolean {
    return this.held.length > 0
  }

  /** The bytes since the last call. */
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

/** The configuration key of a limit of a client; `tunnels` for all clients of an entry exists only in the entry. */
function keyOf(name: LimitName, of: Pick<ClientLimits, 'client' | 'own'>): string {
  return name === 'client_tunnels' ? keyOfEntry(of.client, 'tunnels') : keyOfLimit(of, name)
}

/** Passes an answer of the ledger on: at once, unless it is a promise. */
function whenKnown<T, R>(answer: T | Promise<T>, next: (answer: T) => R | Promise<R>): R | Promise<R> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}
