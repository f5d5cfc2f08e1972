/**
 * A request's header section as node:http is given it: a flat list, written as it stands (RFC 9110 §7.2, §8.6; RFC 9112
 * §6).
 */
import { type Fields, lowerName } from '../http/fields.js'
import type { UpstreamRequest } from './sender.js'

/** Host first (RFC 9110 §7.2), then the fields as they came, then this hop's own. */
export function headerList(request: UpstreamRequest): string[] {
  const { content } = request
  const list = ['Host', request.host]
  if (content !== undefined && content.length === undefined) {
    list.push(...request.fields, 'Transfer-Encoding', 'chunked')
  } else {
    list.push(...withoutTrailer(request.fields))
    // node:http sends a POST that says nothing of its content as chunked; a length of 0 says the same in fewer words.
    if (content !== undefined || request.sendsZeroLength || !CONTENT_UNUSUAL.has(request.method)) {
      list.push('Content-Length', String(content?.length ?? 0))
    }
  }
  if (request.expectContinue) list.push('Expect', '100-continue')
  if (request.upgrade === undefined) list.push('Connection', 'keep-alive')
  else list.push('Connection', 'Upgrade', 'Upgrade', request.upgrade)
  return list
}

/** Methods for which node:http adds no framing of its own. */
const CONTENT_UNUSUAL: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])

/** Trailer names what follows chunked content; without any, node:http refuses the field. */
function withoutTrailer(fields: Fields): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (lowerName(name) !== 'trailer') kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/** A flat list of fields as node:http takes trailers. */
export function headerPairs(fields: Fields): [string, string][] {
  const result: [string, string][] = []
  for (let i = 0; i + 1 < fields.length; i += 2) result.push([fields[i] as string, fields[i + 1] as string])
  return result
}
