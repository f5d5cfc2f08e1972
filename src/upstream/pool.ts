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
  /** The idle ones, those that have been idle longest first. */
  readonly #byAge = new Set<C>()
  readonly #all = new Set<C>()
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
    if (this.#byAge.size === 0) return undefined
    for (const { text } of addresses) {
      const connection = this.#groups.get(poolKey(this.#scheme, grant, text))?.idle.pop()
      if (connection === undefined) continue
      this.#byAge.delete(connection)
      return connection
    }
    return undefined
  }

  /** Puts a connection back whose answer is complete, or that nothing was sent on. */
  give(connection: C): void {
    const group = this.#groups.get(connection.key)
    if (group === undefined || !this.#all.has(connection) || this.#byAge.has(connection)) return
    if (this.#retired || group.idle.length >= MAX_IDLE_PER_KEY) {
      connection.close()
      return
    }
    group.idle.push(connection)
    this.#byAge.add(connection)
    if (this.#byAge.size <= MAX_IDLE) return
    const [oldest] = this.#byAge
    if (oldest === undefined) return
    this.remove(oldest)
    oldest.close()
  }

  /** Forgets a connection that has closed. */
  remove(connection: C): void {
    const group = this.#groups.get(connection.key)
    if (group === undefined || !this.#all.delete(connection)) return
    if (this.#byAge.delete(connection)) group.idle.splice(group.idle.lastIndexOf(connection), 1)
    group.count -= 1
    if (group.count === 0) this.#groups.delete(connection.key)
  }

  /** Closes the idle ones, and from now on each that is given back. */
  retire(): void {
    this.#retired = true
    for (const connection of [...this.#byAge]) connection.close()
  }

  close(): void {
    for (const connection of [...this.#all]) connection.close()
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
