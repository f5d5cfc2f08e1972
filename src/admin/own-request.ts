/**
 * Who may ask the admin listener, and who may have it do something.
 *
 * A web page could make a browser on the same machine ask here, under a name it controls; so Host has to be localhost,
 * an address literal or a name of the configuration. A page of another origin could also have a browser send a POST: what
 * changes anything has to come from the status page or from no page at all, and in a form that no page can send
 * elsewhere unasked (Fetch Metadata; Fetch §3.3, "CORS protocol").
 */
import type { IncomingHttpHeaders } from 'node:http'
import { type Authority, parseAuthority } from '../http/authority.js'

const HTTP_PORT = 80

/**
 * @param hosts names, canonical, that Host may have beside localhost
 * @returns what Host says, when it is one of ours
 */
export function parseOwnHost(value: string | undefined, hosts: readonly string[]): Authority | undefined {
  if (value === undefined) return undefined
  try {
    const authority = parseAuthority(value, HTTP_PORT)
    const { kind, name } = authority.host
    return kind !== 'name' || name === 'localhost' || hosts.includes(name) ? authority : undefined
  } catch {
    return undefined
  }
}

/** Whether no page of another origin is behind it. */
export function isSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host } = headers
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  return origin === undefined || origin === `http://${host}`
}

/** Whether it is in a form that a browser asks for leave before it sends it to another origin. */
export function hasJsonType(headers: IncomingHttpHeaders): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';')
  return type.trim().toLowerCase() === 'application/json'
}
