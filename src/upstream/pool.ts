/**
 * Idle connections. One is reused only for the scheme and the authority that it was opened for, and only when its address
 * is in the permit of the request that asks. Without the address, a client would ride on what the exception of another
 * one opened. Without the authority, it would get to whatever the first request of the connection chose: what is
 * behind an address may lead each connection to another server by that.
 */
import type { Grant, Permit } from '../policy/permit.js'

export type UpstreamScheme = 'http' | 'https'

export interface Poolable {
  /** What `poolKey` makes of what it was opened for. */
  readonly key: string
  /** Its place in the order in which those that are idle were given back, from 1; 0 while it is busy. The pool's to set. */
  idleSince: number
  close(): void
}

/** Idle connections kept under one key; one more is closed. */
export const MAX_IDLE_PER_KEY = 256

/** Idle connections in all; with one more, the one that has been idle longest is closed. */
const MAX_IDLE = 1024

/** The connections under one key. */
interface Group<C> {
  /** The one used last is the last. */
  readonly idle: C[]
  /** Idle or busy. */
  count: number
}

export class Pool<C extends Poolable> {
  readonly #scheme: UpstreamScheme
  /** By what they are kept under, as long as there is a connection, idle or busy. */
  readonly #groups = new Map<string, Group<C>>()
  readonly #all = new Set<C>()
  /** How many are idle; they are not in a set of their own, as every request would churn its entries. */
  #idle = 0
  /** How often one was given back. */
  #given = 0
  #retired = false

  /** @param scheme what all of its connections speak */
  constructor(scheme: UpstreamScheme) {
    this.#scheme = scheme
  }

  /** The key of a connection that was dialled with this permit, to this address in canonical form. */
  keyOf({ grant }: Permit, address: string): string {
    return poolKey(this.#scheme, grant, address)
  }

  /** Counts a new connection in, busy. */
  add(connection: C): void {
    const { key } = connection
    const group = this.#groups.get(key) ?? { idle: [], count: 0 }
    group.count += 1
    this.#groups.set(key, group)
    this.#all.add(connection)
  }

  /** The idle connection used last among those that the permit covers, now busy; or undefined. */
  take({ grant, addresses }: Permit): C | undefined {
    if (this.#idle === 0) return undefined
    for (const { text } of addresses) {
      const connection = this.#groups.get(poolKey(this.#scheme, grant, text))?.idle.pop()
      if (connection === undefined) continue
      connection.idleSince = 0
      this.#idle -= 1
      return connection
    }
    return undefined
  }

  /** Puts a connection back whose answer is complete, or that nothing was sent on. */
  give(connection: C): void {
    const group = this.#groups.get(connection.key)
    if (group === undefined || !this.#all.has(connection) || connection.idleSince > 0) return
    if (this.#retired || group.idle.length >= MAX_IDLE_PER_KEY) {
      connection.close()
      return
    }
    group.idle.push(connection)
    connection.idleSince = ++this.#given
    this.#idle += 1
    if (this.#idle > MAX_IDLE) this.#closeOldest()
  }

  /** Forgets a connection that has closed. */
  remove(connection: C): void {
    const group = this.#groups.get(connection.key)
    if (group === undefined || !this.#all.delete(connection)) return
    if (connection.idleSince > 0) {
      connection.idleSince = 0
      this.#idle -= 1
      group.idle.splice(group.idle.lastIndexOf(connection), 1)
    }
    group.count -= 1
    if (group.count === 0) this.#groups.delete(connection.key)
  }

  /** Closes the idle ones, and from now on each that is given back. */
  retire(): void {
    this.#retired = true
    for (const connection of [...this.#all]) if (connection.idleSince > 0) connection.close()
  }

  close(): void {
    for (const connection of [...this.#all]) connection.close()
  }

  /** It is the first of its group, so that one for each group is looked at. */
  #closeOldest(): void {
    let oldest: C | undefined
    for (const { idle } of this.#groups.values()) {
      const [first] = idle
      if (first !== undefined && (oldest === undefined || first.idleSince < oldest.idleSince)) oldest = first
    }
    if (oldest === undefined) return
    this.remove(oldest)
    oldest.close()
  }
}

/**
 * What connections are kept under. None of its parts has a space in it.
 * @param grant whose host and port were asked for
 * @param address that was vetted for it, in canonical form
 */
export function poolKey(
  scheme: UpstreamScheme,
  { host, port }: Pick<Grant, 'host' | 'port'>,
  address: string,
): string {
  return `${scheme} ${host.name} ${port} ${address}`
}
