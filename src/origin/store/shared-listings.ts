/**
 * Listings of a collection share the work: one pass through its names serves all who wait for it.
 *
 * Who asks while a pass is going on waits for the next, since what was written before it asked may have been passed by
 * already. Those who ask for the same page share that too. A few passes, and a few pages, are made at a time, each in the
 * turn of the client that asked for it first; what nobody waits for any more is given up.
 */
import type { CancelSignal } from '../../exchange.js'
import { ClientGone, unlessGone } from './content.js'
import { type Selected, SmallestNames } from './smallest-names.js'
import { Turns } from './turns.js'

/** A pass reads the disk without a pause, and has the threads of the process to share with name servers' answers. */
const PASSES_AT_ONCE = 2
const PAGES_AT_ONCE = 8
/** Pages that one pass is made for; each has its own names to compare with. */
const PAGES_OF_A_PASS = 32
/** Names beyond those of the page, in place of those that are not there any more. */
const SPARE_NAMES = 100

export interface PageRequest {
  /** Of a collection. */
  readonly path: string
  /** The name behind which the page begins; empty for the first one. */
  readonly after: string
  /** Most items. */
  readonly limit: number
}

export interface ListingSource<Page> {
  /** Most bytes of names that a page can use. */
  readonly pageBytes: number
  /** Gives every name below a collection to each of the selections, as long as any is wanted. */
  scan(path: string, selections: readonly SmallestNames[], isWanted: () => boolean): Promise<void>
  /** @param signal that nobody waits for the page any more */
  page(request: PageRequest, selected: Selected, signal: CancelSignal): Promise<Page>
}

interface Collection<Page> {
  /** What the next pass is for. */
  waiting: Map<string, Question<Page>>
  /** Ends the wait for that pass when `waiting` is empty. */
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
   * @param network of the client that asks
   * @param signal that it is gone
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
    const question = collection.waiting.get(key) ?? new Question<Page>(request, network)
    collection.waiting.set(key, question)
    try {
      return await question.wait(signal)
    } finally {
      if (question.abandoned.aborted && collection.waiting.get(key) === question) {
        collection.waiting.delete(key)
        if (collection.waiting.size === 0) collection.idle.abort()
      }
    }
  }

  async #serve(path: string, collection: Collection<Page>): Promise<void> {
    // In a turn of its own, when the first question is there.
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
    const questions = all.slice(0, PAGES_OF_A_PASS).map(([, question]) => ({
      question,
      selection: new SmallestNames(
        question.request.after,
        question.request.limit + SPARE_NAMES,
        this.#source.pageBytes,
      ),
    }))
    collection.waiting = new Map(all.slice(PAGES_OF_A_PASS))
    const selections = questions.map(({ selection }) => selection)
    const isWanted = (): boolean => questions.some(({ question }) => !question.abandoned.aborted)
    try {
      await this.#source.scan(path, selections, isWanted)
    } catch (error) {
      for (const { question } of questions) question.fail(error)
      return
    }
    for (const { question, selection } of questions) void this.#answer(question, selection)
  }

  async #answer(question: Question<Page>, selection: SmallestNames): Promise<void> {
    const { request, network, abandoned } = question
    const make = (): Promise<Page> => this.#source.page(request, selection.selected(), abandoned)
    try {
      question.answer(await this.#pages.run(make, network, abandoned))
    } catch (error) {
      question.fail(error)
    }
  }
}

/** A page, and those who wait for it. */
class Question<Page> {
  readonly request: PageRequest
  /** Of the client that asked first. */
  readonly network: string
  readonly #page: Promise<Page>
  readonly #nobody = new AbortController()
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
    // Told to those who wait; there may be nobody.
    this.#page.catch(() => {})
  }

  /** Aborted when nobody waits any more. */
  get abandoned(): AbortSignal {
    return this.#nobody.signal
  }

  async wait(signal: CancelSignal): Promise<Page> {
    this.#waiting++
    try {
      return await unlessGone(this.#page, signal)
    } finally {
      this.#waiting--
      if (this.#waiting === 0) this.#nobody.abort(new ClientGone())
    }
  }
}
