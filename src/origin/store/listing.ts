/**
 * What a collection answers to GET and HEAD: the names below it, a page at a time, as JSON or as HTML.
 *
 * The index may name what is not there any more, so each name that is shown has been looked up. One that can not be read
 * is left out, and told to whoever runs the proxy: it keeps nobody from what stands beside it.
 */
import { createHash } from 'node:crypto'
import { ProxyError } from '../../errors.js'
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
import type { CollectionIndex } from './collection-index.js'
import { errorCode, isUnreadable } from './failures.js'
import { serializeListingHtml } from './listing-html.js'
import type { ListingItem, ListingPage } from './listing-page.js'
import { DamagedObject, type ObjectMetadata } from './object-file.js'
import type { Objects } from './objects.js'
import { encodeSegment, type StorePath } from './store-path.js'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
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

  constructor(index: CollectionIndex, objects: Objects, unreadable: Unreadable) {
    this.#index = index
    this.#objects = objects
    this.#unreadable = unreadable
  }

  /** @throws ProxyError 400 on a bad `limit`, 404 when nothing is below, 412 */
  async send(context: AnswerContext, path: StorePath): Promise<Outcome> {
    const { exchange } = context
    const query = path.query ?? ''
    const limit = parseLimit(new URLSearchParams(query).get('limit'))
    const page = await this.#page(path.text, parseAfter(query), limit)
    if (page.items.length === 0 && path.text !== '/' && !(await this.hasMembers(path.text)))
      throw notFound(path.text)

    const type =
      preferredMediaType(exchange.head.fields, ['application/json', 'text/html']) ?? 'application/json'
    const text = type === 'text/html' ? serializeListingHtml(page) : `${JSON.stringify(page)}\n`
    const bytes = Buffer.from(text)
    const opaque = createHash('sha256').update(`${type}\n`).update(bytes).digest('base64url')
    const validators = { etag: { weak: false, opaque }, lastModifiedMs: undefined }
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

  /** Whether there is a resource anywhere below a collection. */
  async hasMembers(path: string): Promise<boolean> {
    for (const name of await this.#index.names(path)) {
      if ((await this.#item(path, name)) !== undefined) return true
    }
    return false
  }

  async #page(path: string, after: string, limit: number): Promise<ListingPage> {
    const items: ListingItem[] = []
    let next: string | null = null
    for (const name of await this.#index.names(path)) {
      if (name <= after) continue
      const item = await this.#item(path, name)
      if (item === undefined) continue
      if (items.length === limit) {
        next = `${path}?limit=${limit}&after=${items.at(-1)?.name ?? ''}`
        break
      }
      items.push(item)
    }
    return { path, items, next }
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
