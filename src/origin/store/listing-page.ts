/** One page of the listing of a collection, as JSON and as HTML. */
import { createHash } from 'node:crypto'
import type { Validators } from '../../http/conditional.js'

/** Names are percent-encoded as in a path, so that each is a reference relative to the collection. */
export type ListingItem =
  /** A collection, whose name ends in `/`. */
  | { readonly name: string }
  | {
      readonly name: string
      /** Bytes of content. */
      readonly size: number
      /** Content-Type; null if it has none. */
      readonly type: string | null
      readonly etag: string
      /** ISO 8601. */
      readonly modified: string
    }

export interface ListingPage {
  readonly path: string
  readonly items: readonly ListingItem[]
  /** The path and query of the next page; null on the last one. */
  readonly next: string | null
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Serializes a listing as HTML for people. All text is escaped, and there are no scripts. */
export function serializeListingHtml({ path, items, next }: ListingPage): string {
  const title = escapeHtml(readable(path))
  const rows = items.map(item => `<tr>${rowOf(item)}</tr>\n`).join('')
  const up = path === '/' ? '' : '<p><a href="../">../</a></p>\n'
  const more = next === null ? '' : `<p><a href="${escapeHtml(next)}">more</a></p>\n`
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${title}</title>
<h1>${title}</h1>
${up}<table>
<tr><th>name</th><th>bytes</th><th>type</th><th>modified</th></tr>
${rows}</table>
${more}</html>
`
}

function rowOf(item: ListingItem): string {
  const { name } = item
  const link = `<td><a href="${escapeHtml(name)}">${escapeHtml(readable(name))}</a></td>`
  if (!('size' in item)) return `${link}<td></td><td></td><td></td>`
  return `${link}<td>${item.size}</td><td>${escapeHtml(item.type ?? '')}</td><td>${item.modified}</td>`
}

/** Decodes a path for display. Only visible characters are decoded, so that one name cannot look like another. */
function readable(path: string): string {
  return path.replace(/(?:%[0-9A-F]{2})+/g, encoded => {
    const bytes = Buffer.from(encoded.replaceAll('%', ''), 'hex')
    const text = bytes.toString('utf8')
    const isClear = Buffer.from(text).equals(bytes) && /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u.test(text)
    return isClear && !/[/%]/.test(text) ? text : encoded
  })
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, char => ESCAPES[char] ?? char)
}

export const LISTING_TYPES = ['application/json', 'text/html'] as const
export type ListingType = (typeof LISTING_TYPES)[number]

export interface ListingContent {
  readonly bytes: Buffer
  readonly validators: Validators
}

/** A page of a listing that several requests may share: each format is serialized once. */
export class SharedPage {
  readonly #page: ListingPage
  readonly #contents = new Map<ListingType, ListingContent>()
  /** Whether the collection does not exist. */
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
