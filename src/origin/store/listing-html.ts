/** A listing as a page for people: everything in it is escaped, and nothing in it runs. */
import type { ListingItem, ListingPage } from './listing-page.js'

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

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

/** Decoded where that is text that can be seen, so that nobody mistakes one name for another. */
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
