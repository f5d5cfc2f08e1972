/**
 * GET and HEAD of a collection: lists the names in it, one page at a time, as JSON or as HTML.
 *
 * The index may contain names of resources that no longer exist, so each name is looked up before it is listed. A resource
 * that cannot be read is omitted and logged, so that the others can still be listed.
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
/** Maximum bytes of names and types in a page, regardless of its limit: a name may be as long as a request target. */
const PAGE_BYTES = 256 * 1024
/** Maximum number of names that are looked up to find out whether a collection is empty. */
const MAX_LOOKUPS = 8
const LIMIT = /^[1-9]\d{0,3}$/
/** The value is not decoded, because names are bytes, not text. */
const AFTER = /(?:^|&)after=([^&]*)/
/** For the HTML page, which contains names that clients have chosen. */
const SECURITY_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Called for a resource that exists but cannot be read; `reason` is `damaged`, or the code of the system's error. */
export type Unreadable = (path: string, reason: string) => void

export class Listing {
  readonly #index: CollectionIndex
  readonly #objects: Objects
  readonly #unreadable: Unreadable
  readonly #shared: SharedListings<SharedPage>
  readonly #budget = new ClientBudget({ total: 256, perClient: 64, what: 'listings' })

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
   * Sends a page of the listing.
   * @param network the network of the client
   * @throws ProxyError 400 for an invalid `limit`, 404 if the collection is empty, 412, 429 or 503 if too many listings
   *   are waiting; ClientGone
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
   * Whether there is a resource anywhere below a collection. At most MAX_LOOKUPS names are looked up; if none of them
   * exists, the index is trusted for the others. A page may contain a thousand collections, each many levels deep.
   */
  async hasMembers(path: string): Promise<boolean> {
    return await this.#hasMembers(path, { left: MAX_LOOKUPS })
  }

  async #hasMembers(path: string, lookups: { left: number }): Promise<boolean> {
    for await (const name of this.#index.members(path)) {
      if (lookups.left === 0) return true
      lookups.left--
      const isThere = name.endsWith('/')
        ? await this.#hasMembers(path + name, lookups)
        : (await this.#metadata(path + name)) !== undefined
      if (isThere) return true
    }
    return false
  }

  /** Makes a page of selected names. It has fewer items than requested if too many of the names no longer exist. */
  async #page(
    { path, after, limit }: PageRequest,
    { names, more }: Selected,
    signal: CancelSignal,
  ): Promise<SharedPage> {
    const items: ListingItem[] = []
    const pageAfter = (name: string): string => `${path}?limit=${limit}&after=${name}`
    let last = after
    let next: string | null = null
    let bytes = 0
    for (const name of names) {
      if (signal.aborted) throw new ClientGone()
      const item = await this.#item(path, name)
      if (item !== undefined) {
        bytes += name.length + ('type' in item ? (item.type?.length ?? 0) : 0)
        if (items.length === limit || (items.length > 0 && bytes > PAGE_BYTES)) {
          next = pageAfter(items.at(-1)?.name ?? '')
          break
        }
        items.push(item)
      }
      last = name
    }
    if (next === null && more) next = pageAfter(last)
    const isEmpty = items.length === 0 && next === null && path !== '/'
    const isMissing = isEmpty && (after === '' || !(await this.hasMembers(path)))
    return new SharedPage({ path, items, next }, isMissing)
  }

  /** @returns undefined if the resource or collection no longer exists */
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

/** Parses `after`, the name that precedes the page, and normalises it; a collection's name keeps its slash. */
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
  throw new ProxyError('http_request_error', 'invalid limit', {
    status: 400,
    reason: 'limit',
    detail: `limit must be a number from 1 to ${MAX_LIMIT}.`,
  })
}
