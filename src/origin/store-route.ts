/** The handler of a route to the embedded store: opens the store, and decides which clients may write to it. */
import { resolve } from 'node:path'
import { attemptSource } from '../clients/failed-attempts.js'
import type { Config } from '../config/schema.js'
import type { Exchange } from '../exchange.js'
import { type Cidr, cidrContains } from '../net/cidr.js'
import { parseSocketAddress } from '../net/ip-address.js'
import type { Outcome } from '../outcome.js'
import type { StoreHandler } from './origin.js'
import { Store, type StoreClient, type StoreOptions } from './store/store.js'

export type StoreRouteOptions = Pick<
  StoreOptions,
  'isHostNamed' | 'methods' | 'targetBytes' | 'now' | 'date' | 'randomId' | 'descriptors' | 'unreadable'
> & {
  /** Called after each eviction from the store in this directory. */
  readonly evicted: (directory: string, objects: number, bytes: number) => void
  /** The folder that a relative `directory` is resolved against. */
  readonly folder: string
}

type StoreConfig = Extract<Config['origins'][number], { readonly kind: 'store' }>['store']

export class StoreRoute implements StoreHandler {
  readonly #store: Promise<Store>
  readonly #write: readonly Cidr[]

  constructor(
    { directory, write, maxObjectBytes, maxTotalBytes, evict }: StoreConfig,
    { folder, evicted, ...options }: StoreRouteOptions,
  ) {
    this.#write = write
    this.#store = Store.open({
      ...options,
      directory: resolve(folder, directory),
      maxObjectBytes,
      maxTotalBytes,
      evict,
      evicted: (objects, bytes) => evicted(directory, objects, bytes),
    })
    // The error is reported by each request.
    this.#store.catch(() => {})
  }

  async serve(
    exchange: Exchange,
    { path }: { readonly path: string },
    clientAddress: string,
  ): Promise<Outcome> {
    const store = await this.#store
    return await store.serve(exchange, path, this.#clientAt(clientAddress))
  }

  /** Waits for the requests in progress. */
  async close(): Promise<void> {
    const store = await this.#store.catch(() => undefined)
    await store?.close()
  }

  /** @param address an IP address, or `unix` */
  #clientAt(address: string): StoreClient {
    const ip = parseSocketAddress(address)
    if (ip === undefined) return { network: address, mayWrite: false }
    return { network: attemptSource(ip), mayWrite: this.#write.some(cidr => cidrContains(cidr, ip)) }
  }
}
