/**
 * Idle connections. A connection is reused only for the scheme and the authority that it was opened for, and only if its
 * address is in the permit of the request. Without the check of the address, a client could use a connection that only
 * another client may open. Without the authority, it could reach another server than it asked for: a load balancer may
 * choose the server of a connection by the first request on it.
 */
import type { Grant, Permit } from '../policy/permit.js'

export type UpstreamScheme = 'http' | 'https'

export interface Poolable {
  /** The `poolKey` of its scheme, authority and address. */
  readonly key: string
  /** The running number, from 1, of its last return to the pool; 0 while it is busy. Only the pool sets it. */
  idleSince: number
  close(): void
}

/** Maximum number of idle connections for one key; a further one is closed. */
export const MAX_IDLE_PER_KEY = 256

/** Maximum number of idle connections in total; if there are more, the one that has been idle longest is closed. */
const MAX_IDLE = 1024

/** The connections with one key. */
interface Group<C> {
  /** The most recently used one comes last. */
  readonly idle: C[]
  /** How many there are, idle or busy. */
  count: number
}

export class Pool<C extends Poolable> {
  readonly #scheme: UpstreamScheme
  /** By key; a key is removed with its last connection, idle or busy. */
  readonly #groups = new Map<string, Group<C>>()
  readonly #all = new Set<C>()
  /** How many are idle. A set of the idle ones would be changed twice by every request. */
  #idle = 0
  /** How many times a connection was returned. */
  #given = 0
  #retired = false

  /** @param scheme the scheme of all connections */
  constructor(scheme: UpstreamScheme) {
    this.#scheme = scheme
  }

  /**
   * The key of a connection that was dialled with a permit.
   * @param address the address that was connected to, in canonical form
   */
  keyOf({ grant }: Permit, address: string): string {
    return poolKey(this.#scheme, grant, address)
  }

  /** Adds a new connection, as a busy one. */
  add(connection: C): void {
    const { key } = connection
    const group = this.#groups.get(key) ?? { idle: [], count: 0 }
    group.count += 1
    this.#groups.set(key, group)
    this.#all.add(connection)
  }

  /** Takes the most recently used idle connection that the permit covers, if there is one; it is busy then. */
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

  /** Returns a connection whose response is complete, or that nothing was sent on. */
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

  /** Removes a connection that has been closed. */
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

  /** Closes idle connections now and busy ones when they are returned. */
  retire(): void {
    this.#retired = true
    for (const connection of [...this.#all]) if (connection.idleSince > 0) connection.close()
  }

  close(): void {
    for (const connection of [...this.#all]) connection.close()
  }

  /** Closes the connection that has been idle longest, which is the first of its group. */
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
 * The key of a connection. None of its parts contains a space.
 * @param grant the grant whose host and port were requested
 * @param address the vetted address, in canonical form
 */
export function poolKey(
  scheme: UpstreamScheme,
  { host, port }: Pick<Grant, 'host' | 'port'>,
  address: string,
): string {
  return `${scheme} ${host.name} ${port} ${address}`
}
