/**
 * The embedded store: an origin that keeps its resources in files, and implements the methods of RFC 9110 §9.3 and RFC
 * 5789.
 *
 * A path that ends in `/` is a collection of the resources below it: it can be listed, and POST creates a resource in it.
 * Any other path is that of a resource, which PUT creates.
 */
import type { Descriptors } from '../../limits/descriptors.js'
import type { Exchange } from '../../exchange.js'
import { serializeAllow } from '../../http/allow.js'
import { type Method, methodProperties } from '../../http/method.js'
import { Outcome } from '../../outcome.js'
import {
  ACCEPT_PATCH,
  type AnswerContext,
  answerEmpty,
  COLLECTION_METHODS,
  checkPreconditions,
  measuredOf,
  methodNotAllowed,
  notFound,
  RESOURCE_METHODS,
  storeMethods,
} from './answers.js'
import { CollectionIndex } from './collection-index.js'
import { discardContent } from './content.js'
import { Eviction } from './eviction.js'
import { storeFailure } from './failures.js'
import { Layout } from './layout.js'
import { Listing, type Unreadable } from './listing.js'
import { type ObjectMetadata, validatorsOf } from './object-file.js'
import { Objects } from './objects.js'
import { Owner } from './owner.js'
import { Patches } from './patch.js'
import { postToCollection, putResource, type WriteContext } from './put.js'
import { Recency } from './recency.js'
import { ResourceLocks } from './resource-lock.js'
import { sendRepresentation } from './send-representation.js'
import { badQuery, checkPathLength, encodeSegment, parseStorePath, type StorePath } from './store-path.js'
import { TemporaryFiles } from './temporary-files.js'
import { Usage } from './usage.js'
import { checkWriteAccess } from './write-access.js'

/** How often a process that writes removes the temporary files of processes that were killed. */
const SWEEP_MS = 10 * 60_000

/** The client of a request. */
export interface StoreClient {
  /** The network whose clients share the limits of one client. */
  readonly network: string
  /** Whether it may use methods that are not safe. */
  readonly mayWrite: boolean
}

export interface StoreOptions {
  /** Created by the first write. */
  readonly directory: string
  readonly maxObjectBytes: number
  readonly maxTotalBytes: number
  /** Which resources are removed to make room for others. */
  readonly evict: 'never' | 'least-recently-used'
  /** Maximum bytes of a request target, which generated paths must not exceed. */
  readonly targetBytes: number
  /** Whether the route to the store is limited to certain values of Host. */
  readonly isHostNamed: boolean
  /** The methods that the route allows. TRACE, which the proxy itself answers, may be among them. */
  readonly methods: readonly Method[]
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** The current HTTP-date. */
  readonly date: () => string
  /** Makes an id of letters, digits and hyphens that is unique among all processes. */
  readonly randomId: () => string
  readonly descriptors: Descriptors
  readonly unreadable: Unreadable
  /** Called after each eviction. */
  readonly evicted: (objects: number, bytes: number) => void
}

export class Store {
  readonly #options: StoreOptions
  readonly #objects: Objects
  readonly #listing: Listing
  readonly #temporary: TemporaryFiles
  readonly #locks: ResourceLocks
  readonly #usage: Usage
  readonly #eviction: Eviction | undefined
  readonly #patches = new Patches()
  readonly #running = new Set<Promise<unknown>>()
  #sweptAt = Number.NEGATIVE_INFINITY

  private constructor(options: StoreOptions, owner: Owner) {
    const { directory, now, randomId, descriptors, unreadable } = options
    const layout = new Layout(directory)
    const locks = new ResourceLocks(layout.locks, owner, now, randomId)
    const temporary = new TemporaryFiles(layout.temporary, owner, randomId, descriptors)
    const index = new CollectionIndex(layout, temporary)
    const evicts = options.evict === 'least-recently-used'
    const usage = new Usage({
      objects: layout.objects,
      collections: layout.collections,
      maxTotalBytes: options.maxTotalBytes,
      now,
      eviction: evicts ? () => this.#eviction : undefined,
    })
    const recency = evicts ? new Recency(now) : undefined
    const objects = new Objects({ layout, locks, index, usage, descriptors, recency })
    this.#options = options
    this.#temporary = temporary
    this.#locks = locks
    this.#usage = usage
    this.#objects = objects
    this.#eviction = evicts ? new Eviction({ ...options, usage, objects, locks }) : undefined
    this.#listing = new Listing(index, objects, unreadable)
  }

  /** Opens a store: removes the temporary files of processes that no longer exist; creates nothing. */
  static async open(options: StoreOptions): Promise<Store> {
    const store = new Store(options, await Owner.ofThisProcess(options.randomId()))
    await store.#sweep()
    return store
  }

  /**
   * Answers a request.
   * @param target path and query as received
   * @returns the outcome; if it has an error, no response has been sent, and the caller sends the error response
   */
  serve(exchange: Exchange, target: string, client: StoreClient): Promise<Outcome> {
    return this.#run(this.#serve(exchange, target, client).catch((error: unknown) => failed(exchange, error)))
  }

  /** Makes `close` wait for the work. */
  #run<T>(work: Promise<T>): Promise<T> {
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
    return running
  }

  /** Errors are ignored here: an unusable directory fails the requests that use it, not the proxy. */
  async #sweep(): Promise<void> {
    const now = this.#options.now()
    if (now - this.#sweptAt < SWEEP_MS) return
    this.#sweptAt = now
    await this.#temporary.sweep(now).catch(() => {})
  }

  /** Waits for the requests in progress, a sweep, and the removals of an eviction. */
  async close(): Promise<void> {
    await Promise.all(this.#running)
    this.#eviction?.close()
    await this.#usage.close()
    await this.#patches.close()
    await this.#locks.close()
    await this.#temporary.close()
  }

  async #serve(exchange: Exchange, target: string, client: StoreClient): Promise<Outcome> {
    const path = parseStorePath(target)
    const { method } = exchange.facts
    const methods = path.isCollection ? COLLECTION_METHODS : RESOURCE_METHODS
    const allowed = storeMethods(this.#options.methods, path.isCollection)
    if (!methods.includes(method)) throw methodNotAllowed(serializeAllow(allowed))
    if (!methodProperties(method).safe) {
      checkWriteAccess(exchange, { mayWrite: client.mayWrite, isHostNamed: this.#options.isHostNamed })
      if (path.query !== undefined) throw badQuery()
      void this.#run(this.#sweep())
    }
    if (methodProperties(method).requestContent !== 'defined') await discardContent(exchange)
    const context = { ...this.#options, exchange }
    if (method === 'OPTIONS') return answerOptions(context, allowed)
    return path.isCollection
      ? await this.#collection(context, path, client)
      : await this.#resource(context, path.text, client)
  }

  async #resource(context: AnswerContext, path: string, client: StoreClient): Promise<Outcome> {
    switch (context.exchange.facts.method) {
      case 'PUT':
        checkPathLength(path, this.#options.targetBytes)
        return await putResource(this.#writing(context), path)
      case 'PATCH':
        return await this.#patches.patch(this.#writing(context), path, client.network)
      case 'DELETE': {
        const check = (current: ObjectMetadata | undefined): void =>
          void checkPreconditions(context, current && validatorsOf(current))
        const { signal } = context.exchange
        if (!(await this.#objects.remove(path, check, signal))) throw notFound(path)
        return answerEmpty(context, 204, [])
      }
      default: {
        const object = await this.#objects.open(path)
        if (object === undefined) throw notFound(path)
        const recorded = this.#objects.markUsed(path, object)
        if (recorded !== undefined) void this.#run(recorded)
        try {
          return await sendRepresentation(context, object, this.#options.randomId)
        } finally {
          await object.close()
        }
      }
    }
  }

  async #collection(context: AnswerContext, path: StorePath, client: StoreClient): Promise<Outcome> {
    if (context.exchange.facts.method !== 'POST')
      return await this.#listing.send(context, path, client.network)
    const exists = async (): Promise<boolean> =>
      path.text === '/' || (await this.#listing.hasMembers(path.text))
    const created = path.text + this.#newName()
    checkPathLength(created, this.#options.targetBytes)
    return await postToCollection(this.#writing(context), created, exists)
  }

  #writing(context: AnswerContext): WriteContext {
    const { maxObjectBytes } = this.#options
    return {
      ...context,
      objects: this.#objects,
      temporary: this.#temporary,
      usage: this.#usage,
      maxObjectBytes,
    }
  }

  /** Makes a name for a new resource; such names sort by time. */
  #newName(): string {
    const time = new Date(this.#options.now()).toISOString().replace(/[-:.]/g, '')
    return `${time}-${encodeSegment(Buffer.from(this.#options.randomId()))}`
  }
}

/** Sends the allowed methods of a target, and with PATCH, the supported patch formats (RFC 9110 §9.3.7, RFC 5789 §3.1). */
function answerOptions(context: AnswerContext, allowed: readonly Method[]): Outcome {
  const patching = allowed.includes('PATCH') ? ['Accept-Patch', ACCEPT_PATCH] : []
  return answerEmpty(context, 200, ['Allow', serializeAllow(allowed), ...patching])
}

function failed(exchange: Exchange, error: unknown): Outcome {
  const measured = measuredOf(exchange, 0)
  if (exchange.aborted !== undefined) return Outcome.aborted('origin', exchange.aborted, measured)
  const failure = storeFailure(error)
  return failure.status < 500
    ? Outcome.refused('origin', failure, measured)
    : Outcome.failed('origin', failure, measured)
}
