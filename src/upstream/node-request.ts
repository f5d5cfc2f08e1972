/**
 * A request's header section as node:http is given it: a flat list, written as it stands (RFC 9110 §7.2, §8.6; RFC 9112
 * §6).
 */
import type { ClientRequest } from 'node:http'
import { type Fields, lowerName } from '../http/fields.js'
import { type Method, methodProperties } from '../http/method.js'
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
    if (content !== undefined || request.sendsZeroLength || mayHaveContent(request.method)) {
      list.push('Content-Length', String(content?.length ?? 0))
    }
  }
  if (request.expectContinue) list.push('Expect', '100-continue')
  if (request.upgrade === undefined) list.push('Connection', 'keep-alive')
  else list.push('Connection', 'Upgrade', 'Upgrade', request.upgrade)
  return list
}

/** Of methods whose content has no meaning of its own node:http thinks alike, and adds no framing. */
function mayHaveContent(method: Method): boolean {
  return methodProperties(method).requestContent === 'defined'
}

/**
 * node:http writes every method in capitals, and `Report` is another method than REPORT (RFC 9110 §9.1).
 * @param client a request whose head is made and not sent
 * @throws TypeError when that is not where this Node version keeps it
 */
export function keepMethodAsWritten(client: ClientRequest, method: Method): void {
  if (client.method === method) return
  const made = client as unknown as { _header?: unknown }
  const head = made._header
  if (typeof head !== 'string' || !head.startsWith(`${client.method} `)) {
    throw new TypeError('no head that begins with the method')
  }
  made._header = method + head.slice(method.length)
}

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
