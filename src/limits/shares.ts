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
import { type ClientLimits, keyOfEntry, keyOfLimit } from './client-limits.js'
import { type ConnectionSlot, Slot } from './connection-slot.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from './indexed-set.js'
import type { Ledger } from './ledger.js'
import { type LimitName, limitReached } from './refusals.js'

/** The limits that all clients share, and those of connections whose client is not known by its address. */
export type ShareLimits = Pick<Config['limits'], 'connections' | 'connectionsPerClient' | 'tunnels'>

/** An exchange as far as its bytes go. */
export interface Metered {
  /** Bytes of content or of a tunnel, in both directions, so far. */
  readonly bytesPassed: number
  /** Ends it if it is a tunnel. */
  stopTunnel(reason: 'bytes'): void
}

export interface Entrant {
  /** What limits for each client are counted under. */
  readonly account: string
  readonly limits: ClientLimits
  /** Whether it is a tunnel, or may become one. */
  readonly tunnel: boolean
  readonly metered: Metered
}

/** What an exchange holds of the limits while it lasts. */
export interface Reservation {
  /** It is over. A second call does nothing. */
  release(): void
}

/** One of what a limit is the number of, which the ledger is asked for; or that so many bytes have not passed yet. */
interface Demand {
  readonly name: LimitName
  /** In the ledger. */
  readonly key: string
  readonly limit: number
  /** Of whom the limit is, where it is not one of all clients. */
  readonly of?: Pick<ClientLimits, 'client' | 'own'> | undefined
}

/** Connections without a place that may wait to be told so. */
const MAX_REFUSED = 100
/** How often the bytes of what is open are booked. */
const METER_MS = 1000

/** What all tunnels of a process, or of all workers, are counted under. */
export const TUNNELS = 'tunnels'

export class Shares {
  #limits: ShareLimits
  /** The limits of each entry of `clients` since the last reload, by its name. */
  #clients: ReadonlyMap<string, ClientLimits> = new Map()
  /** Whether the bytes of anything that is open may be counted. */
  #counts = false
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

  /**
   * Goes on with other limits, also for what is open; what is held stays held, however many that is.
   * @param clients the limits of each entry, by its name; those of an entry that is gone stay as they were
   */
  configure(limits: ShareLimits, clients: ReadonlyMap<string, ClientLimits>): void {
    this.#limits = limits
    this.#clients = clients
    this.#counts = false
    for (const reservation of this.#open) {
      // What passed while nobody counted is not counted now.
      if (reservation.limits.bytesPerHour === undefined) reservation.takeBytes()
      reservation.limits = this.#inForce(reservation.limits)
      this.#counts ||= reservation.limits.bytesPerHour !== undefined
    }
  }

  /**
   * A connection was accepted.
   * @param source what connections from the same client have in common; undefined as long as nobody knows
   * @param shed closes it; called, now or later, when there are too many to tell each that it has no place
   * @param client the limits of whose connection it is, where its address alone says that
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
   * An exchange asks to be let in, once policy has allowed it.
   * @returns a reservation to be released when it is over, or the refusal; a promise, which never rejects, only where the ledger
   *   gives one
   */
  enter({
    account,
    limits,
    tunnel,
    metered,
  }: Entrant): Reservation | ProxyError | Promise<Reservation | ProxyError> {
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
   * Books what has passed since; called often with the current time. Of clients with tunnels it is asked how they
   * stand even if nothing has passed: the ledger may be shared, and the bytes be used up elsewhere.
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

  /** The limits of the same entry in the configuration in force, in which an exchange may not have begun. */
  #inForce(limits: ClientLimits): ClientLimits {
    return this.#clients.get(limits.client) ?? limits
  }

  /**
   * Asks for one after another, until one is refused.
   * @param held gets the keys that are to be released; it is empty again where one is refused
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

  /** @returns whether there was one, or the seconds until there may be */
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
  /** Those in force for it. */
  limits: ClientLimits
  readonly metered: Metered
  /** The keys that are to be released. */
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

/** The key that sets a limit of a client: `tunnels` of all clients of an entry is its own. */
function keyOf(name: LimitName, of: Pick<ClientLimits, 'client' | 'own'>): string {
  return name === 'client_tunnels' ? keyOfEntry(of.client, 'tunnels') : keyOfLimit(of, name)
}

/** Goes on with an answer of the ledger: at once, unless it is a promise. */
function whenKnown<T, R>(answer: T | Promise<T>, next: (answer: T) => R | Promise<R>): R | Promise<R> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}
