/**
 * Shares the work of listing a collection: one pass over its names serves all requests that are waiting.
 *
 * A request that comes during a pass waits for the next one, as the pass may already be past a name that was written
 * before the request. Requests for the same page share that page, too. A few passes, and a few pages, are made at a time,
 * each in turn by the client that requested it first. Work that no request waits for any more is abandoned.
 */
import type { CancelSignal } from '../../exchange.js'
import { ClientGone, unlessGone } from './content.js'
import { type Selected, SmallestNames } from './smallest-names.js'
import { Turns } from './turns.js'

/** A pass reads the disk without pause, and DNS lookups need the same threads of the process. */
const PASSES_AT_ONCE = 2
const PAGES_AT_ONCE = 8
/** Maximum number of pages for which one pass is made; each name is compared for every page. */
const PAGES_OF_A_PASS = 32
/** Additional names for a page, in place of those that no longer exist. */
const SPARE_NAMES = 100

export interface PageRequest {
  /** The path of a collection. */
  readonly path: string
  /** The name that precedes the page; empty for the first page. */
  readonly after: string
  /** Maximum number of items. */
  readonly limit: number
}

export interface ListingSource<Page> {
  /** Maximum bytes of names that a page can use. */
  readonly pageBytes: number
  /** Adds the names in a collection to the selections; ends early if `isWanted` returns false. */
  scan(path: string, selections: readonly SmallestNames[], isWanted: () => boolean): Promise<void>
  /** @param signal aborted when no request waits for the page any more */
  page(request: PageRequest, selected: Selected, signal: CancelSignal): Promise<Page>
}

interface Collection<Page> {
  /** The pages that the next pass is for. */
  waiting: Map<string, PendingPage<Page>>
  /** Cancels the next pass while it waits for its turn, once `waiting` is empty. */
  idle: AbortController
}

export class SharedListings<Page> {
  readonly #source: ListingSource<Page>
  readonly #passes = new Turns(PASSES_AT_ONCE)
  readonly #pages = new Turns(PAGES_AT_ONCE)
  readonly #collections = new Map<string, Collection<Page>>()

  constructor(source: ListingSource<Page>) {
    this.#source = source
  }

  /**
   * @param network the network of the client
   * @param signal aborted when the client is gone
   * @throws ClientGone, and what the source throws
   */
  async page(request: PageRequest, network: string, signal: CancelSignal): Promise<Page> {
    if (signal.aborted) throw new ClientGone()
    const { path, after, limit } = request
    let collection = this.#collections.get(path)
    if (collection === undefined) {
      collection = { waiting: new Map(), idle: new AbortController() }
      this.#collections.set(path, collection)
      void this.#serve(path, collection)
    }
    const key = `${limit} ${after}`
    const page = collection.waiting.get(key) ?? new PendingPage<Page>(request, network)
    collection.waiting.set(key, page)
    try {
      return await page.wait(signal)
    } finally {
      if (page.abandoned.aborted && collection.waiting.get(key) === page) {
        collection.waiting.delete(key)
        if (collection.waiting.size === 0) collection.idle.abort()
      }
    }
  }

  async #serve(path: string, collection: Collection<Page>): Promise<void> {
    // It continues in a microtask, after the first page has been added.
    await Promise.resolve()
    for (;;) {
      const [first] = collection.waiting.values()
      if (first === undefined) break
      const pass = (): Promise<void> => this.#pass(path, collection)
      await this.#passes.run(pass, first.network, collection.idle.signal).catch(() => {})
      if (collection.idle.signal.aborted) collection.idle = new AbortController()
    }
    this.#collections.delete(path)
  }

  async #pass(path: string, collection: Collection<Page>): Promise<void> {
    const all = [...collection.waiting]
    const pages = all.slice(0, PAGES_OF_A_PASS).map(([, page]) => ({
      page,
      selection: new SmallestNames(
        page.request.after,
        page.request.limit + SPARE_NAMES,
        this.#source.pageBytes,
      ),
    }))
    collection.waiting = new Map(all.slice(PAGES_OF_A_PASS))
    const selections = pages.map(({ selection }) => selection)
    const isWanted = (): boolean => pages.some(({ page }) => !page.abandoned.aborted)
    try {
      await this.#source.scan(path, selections, isWanted)
    } catch (error) {
      for (const { page } of pages) page.fail(error)
      return
    }
    for (const { page, selection } of pages) void this.#answer(page, selection)
  }

  async #answer(page: PendingPage<Page>, selection: SmallestNames): Promise<void> {
    const { request, network, abandoned } = page
    const make = (): Promise<Page> => this.#source.page(request, selection.selected(), abandoned)
    try {
      page.answer(await this.#pages.run(make, network, abandoned))
    } catch (error) {
      page.fail(error)
    }
  }
}

/** A page that is to be made, and the requests that wait for it. */
class PendingPage<Page> {
  readonly request: PageRequest
  /** The network of the client that requested it first. */
  readonly network: string
  readonly #page: Promise<Page>
  readonly #abandoned = new AbortController()
  #waiting = 0
  answer: (page: Page) => void = () => {}
  fail: (error: unknown) => void = () => {}

  constructor(request: PageRequest, network: string) {
    this.request = request
    this.network = network
    this.#page = new Promise((resolve, reject) => {
      this.answer = resolve
      this.fail = reject
    })
    // The error is reported to the waiting requests, if there are any.
    this.#page.catch(() => {})
  }

  /** Aborted when no request waits any more. */
  get abandoned(): AbortSignal {
    return this.#abandoned.signal
  }

  async wait(signal: CancelSignal): Promise<Page> {
    this.#waiting++
    try {
      return await unlessGone(this.#page, signal)
    } finally {
      this.#waiting--
      if (this.#waiting === 0) this.#abandoned.abort(new ClientGone())
    }
  }
}
