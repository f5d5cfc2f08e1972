/** A page of a listing that many may have asked for: it is written out once for all of them. */
import { createHash } from 'node:crypto'
import type { Validators } from '../../http/conditional.js'
import { serializeListingHtml } from './listing-html.js'
import type { ListingPage } from './listing-page.js'

export const LISTING_TYPES = ['application/json', 'text/html'] as const
export type ListingType = (typeof LISTING_TYPES)[number]

export interface ListingContent {
  readonly bytes: Buffer
  readonly validators: Validators
}

export class SharedPage {
  readonly #page: ListingPage
  readonly #contents = new Map<ListingType, ListingContent>()
  /** Whether there is no such collection. */
  readonly isMissing: boolean

  constructor(page: ListingPage, isMissing: boolean) {
    this.#page = page
    this.isMissing = isMissing
  }

  contentAs(type: ListingType): ListingContent {
    const content = this.#contents.get(type) ?? contentOf(this.#page, type)
    this.#contents.set(type, content)
    return content
  }
}

function contentOf(page: ListingPage, type: ListingType): ListingContent {
  const text = type === 'text/html' ? serializeListingHtml(page) : `${JSON.stringify(page)}\n`
  const bytes = Buffer.from(text)
  const opaque = createHash('sha256').update(`${type}\n`).update(bytes).digest('base64url')
  return { bytes, validators: { etag: { weak: false, opaque }, lastModifiedMs: undefined } }
}
