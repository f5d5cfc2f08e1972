/**
 * What a collection answers to GET and HEAD: the names below it, a page at a time, as JSON or as HTML.
 *
 * The index may name what is not there any more, so each name that is shown has been looked up. One that can not be read
 * is left out, and told to whoever runs the proxy: it keeps nobody from what stands beside it.
 */
import { errorCode, ProxyError } from '../../errors.js'
import type { CancelSignal } from '../../exchange.js'
import { preferredMediaType } from '../../http/accept.js'
import { serializeEntityTag } from '../../http/etag.js'
import type { Outcome } from '../../outcome.js'
import {
  type AnswerContext,
  answer,
  answerEmpty,
  checkPreconditions,
  notFound,
  outcomeOf,
  validatorFields,
} from './answers.js'
import { ClientBudget } from './turns.js'
import type { CollectionIndex } from './collection-index.js'
import { ClientGone } from './content.js'
import { isUnreadable } from './failures.js'
import { LISTING_TYPES, type ListingItem, SharedPage } from './listing-page.js'
import { DamagedObject, type ObjectMetadata } from './object-file.js'
import type { Objects } from './objects.js'
import { type PageRequest, SharedListings } from './shared-listings.js'
import type { Selected } from './smallest-names.js'
import { encodeSegment, type StorePath } from './store-path.js'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
/** Of names and types in a page, whatever its limit: a name may be as long as a request target. */
const PAGE_BYTES = 256 * 1024
/** Names below a collection that are looked up to see whether there is anything. */
const MOST_LOOKS = 8
const LIMIT = /^[1-9]\d{0,3}$/
/** Raw, because names are bytes and no text. */
const AFTER = /(?:^|&)after=([^&]*)/
/** For a page of our own, made of other people's names. */
const SECURITY_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Told of a resource that is there and can not be read; `reason` is `damaged`, or the system's name for the error. */
export type Unreadable = (path: string, reason: string) => void

export class Listing {
  readonly #index: CollectionIndex
  readonly #objects: Objects
  readonly #unreadable: Unreadable
  readonly #shared: SharedListings<SharedPage>
  readonly #budget = new ClientBudget({ inAll: 256, perClient: 64, what: 'listings' })

  constructor(index: CollectionIndex, objects: Objects, unreadable: Unreadable) {
    this.#index = index
    this.#objects = objects
    this.#unreadable = unreadable
    this.#shared = new SharedListings<SharedPage>({
      pageBytes: PAGE_BYTES,
      scan: (path, selections, isWanted) => index.scan(path, selections, isWanted),
      page: (request, selected, signal) => this.#page(request, selected, signal),
    })
  }

  /**
   * @param network of the client
   * @throws ProxyError 400 on a bad `limit`, 404 when nothing is below, 412, 429 and 503 when too many wait; ClientGone
   */
  async send(context: AnswerContext, path: StorePath, network: string): Promise<Outcome> {
    const { exchange } = context
    const query = path.query ?? ''
    const limit = parseLimit(new URLSearchParams(query).get('limit'))
    const share = this.#budget.share(network)
    share.take(1)
    let page: SharedPage
    try {
      const request = { path: path.text, after: parseAfter(query), limit }
      page = await this.#shared.page(request, network, exchange.signal)
    } finally {
      share.giveBack()
    }
    if (page.isMissing) throw notFound(path.text)

    const type = preferredMediaType(exchange.head.fields.list, LISTING_TYPES) ?? 'application/json'
    const { bytes, validators } = page.contentAs(type)
    const fields = [...validatorFields(context, validators), 'Vary', 'Accept', 'Cache-Control', 'no-cache']
    if (checkPreconditions(context, validators) === 'not_modified') return answerEmpty(context, 304, fields)
    fields.push('Content-Type', type === 'text/html' ? 'text/html; charset=utf-8' : type)
    fields.push('X-Content-Type-Options', 'nosniff', 'Content-Security-Policy', SECURITY_POLICY)
    const content = answer(context, 200, fields, bytes.length)
    const sent = exchange.facts.method === 'HEAD' ? 0 : bytes.length
    if (sent > 0) content.write(bytes)
    content.end()
    return outcomeOf(exchange, 200, sent)
  }

  /**
   * Whether there is a resource anywhere below a collection. So many of the names below it are looked up, and where that
   * has not told, the index is believed: a page may hold a thousand collections, each of them many levels deep.
   */
  async hasMembers(path: string): Promise<boolean> {
    return (await this.#look(path, { left: MOST_LOOKS })) !== 'empty'
  }

  async #look(path: string, looks: { left: number }): Promise<'empty' | 'inhabited'> {
    for await (const name of this.#index.members(path)) {
      if (looks.left === 0) return 'inhabited'
      looks.left--
      const isThere = name.endsWith('/')
        ? (await this.#look(path + name, looks)) === 'inhabited'
        : (await this.#metadata(path + name)) !== undefined
      if (isThere) return 'inhabited'
    }
    return 'empty'
  }

  /** Of the names that were selected; where more of them than spare ones lead nowhere, it has fewer items than asked for. */
  async #page(
    { path, after, limit }: PageRequest,
    { names, more }: Selected,
    signal: CancelSignal,
  ): Promise<SharedPage> {
    const items: ListingItem[] = []
    const nextBehind = (name: string): string => `${path}?limit=${limit}&after=${name}`
    let last = after
    let next: string | null = null
    let bytes = 0
    for (const name of names) {
      if (signal.aborted) throw new ClientGone()
      const item = await this.#item(path, name)
      if (item !== undefined) {
        bytes += name.length + ('type' in item ? (item.type?.length ?? 0) : 0)
        if (items.length === limit || (items.length > 0 && bytes > PAGE_BYTES)) {
          next = nextBehind(items.at(-1)?.name ?? '')
          break
        }
        items.push(item)
      }
      last = name
    }
    if (next === null && more) next = nextBehind(last)
    const isEmpty = items.length === 0 && next === null && path !== '/'
    const isMissing = isEmpty && (after === '' || !(await this.hasMembers(path)))
    return new SharedPage({ path, items, next }, isMissing)
  }

  /** undefined when there is no such thing any more. */
  async #item(path: string, name: string): Promise<ListingItem | undefined> {
    if (name.endsWith('/')) return (await this.hasMembers(path + name)) ? { name } : undefined
    const metadata = await this.#metadata(path + name)
    if (metadata === undefined) return undefined
    return {
      name,
      size: metadata.length,
      type: metadata.fields.contentType ?? null,
      etag: serializeEntityTag({ weak: false, opaque: metadata.etag }),
      modified: new Date(metadata.modifiedMs).toISOString(),
    }
  }

  async #metadata(path: string): Promise<ObjectMetadata | undefined> {
    try {
      return await this.#objects.metadata(path)
    } catch (error) {
      const isDamaged = error instanceof DamagedObject
      if (!isDamaged && !isUnreadable(error)) throw error
      this.#unreadable(path, isDamaged ? 'damaged' : String(errorCode(error)))
      return undefined
    }
  }
}

/** The name behind which a page begins, in the one spelling that names have; the slash of a collection is its end. */
function parseAfter(query: string): string {
  const after = AFTER.exec(query)?.[1] ?? ''
  return after.replace(/%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~/-]/g, part =>
    encodeSegment(part.length === 3 ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part)),
  )
}

function parseLimit(text: string | null): number {
  if (text === null) return DEFAULT_LIMIT
  const limit = LIMIT.test(text) ? Number(text) : Number.NaN
  if (limit <= MAX_LIMIT) return limit
  throw new ProxyError('http_request_error', 'bad limit', {
    status: 400,
    reason: 'limit',
    detail: `limit is a number from 1 to ${MAX_LIMIT}.`,
  })
}
