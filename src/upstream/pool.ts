/**
 * Idle connections, by the address they lead to and not by the name they were opened for: one is reused only when
 * its address is in the permit of the request that asks, so that nobody rides on what another's exception opened.
 */
import type { Permit } from '../policy/permit.js'

export interface Poolable {
  /** The literal it is connected to, in canonical form. */
  readonly address: string
  readonly port: number
  close(): void
}

/** Idle connections kept for one address and port; one more is closed. */
const MAX_IDLE_PER_ADDRESS = 256

export class Pool<C extends Poolable> {
  readonly #idle = new Map<string, C[]>()
  readonly #all = new Set<C>()

  /** Counts a new connection in, busy. */
  add(connection: C): void {
    this.#all.add(connection)
  }

  /** The idle connection used last among those that the permit covers, now busy; or undefined. */
  take(permit: Permit): C | undefined {
    for (const address of permit.addresses) {
      const connection = this.#idle.get(poolKey(address.text, permit.grant.port))?.pop()
      if (connection !== undefined) return connection
    }
    return undefined
  }

  /** Puts a connection back whose answer is complete. */
  give(connection: C): void {
    if (!this.#all.has(connection)) return
    const key = poolKey(connection.address, connection.port)
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else if (idle.length < MAX_IDLE_PER_ADDRESS) idle.push(connection)
    else connection.close()
  }

  /** Forgets a connection that has closed. */
  remove(connection: C): void {
    this.#all.delete(connection)
    const key = poolKey(connection.address, connection.port)
    const idle = this.#idle.get(key)
    const index = idle?.indexOf(connection) ?? -1
    if (idle === undefined || index === -1) return
    idle.splice(index, 1)
    if (idle.length === 0) this.#idle.delete(key)
  }

  close(): void {
    for (const connection of [...this.#all]) connection.close()
  }
}

/** What connections to one address and port are kept under. */
export function poolKey(address: string, port: number): string {
  return `${address} ${port}`
}
