/**
 * Normalises the path of a URI to the path of a resource in the store (RFC 3986 §2.1, §3.3, §6.2.2).
 *
 * Names are bytes in any encoding, and case-sensitive. In each segment all but unreserved characters are percent-encoded,
 * so that two spellings of a path are the same, and `%2F` remains different from `/`. Dot segments are refused in any
 * spelling, as another server or client may have resolved them differently.
 */
import { ProxyError } from '../../errors.js'

export interface StorePath {
  /** The normalised path: percent-encoded, beginning with `/`. */
  readonly text: string
  /** Whether the path ends in `/`, and so is that of a collection. */
  readonly isCollection: boolean
  /** The query without `?`; undefined if there is none. It is not part of the path. */
  readonly query: string | undefined
}

/** Maximum number of segments: each takes a folder on the disk, which no limit of content covers. */
const MAX_SEGMENTS = 64

/** What `next` of a listing adds to a path, with the largest `limit`. */
const LONGEST_QUERY = '?limit=1000&after='.length

const PERCENT = 0x25
const HEX_PAIR = /^[0-9A-Fa-f]{2}$/
const UNRESERVED = /^[A-Za-z0-9._~-]$/
/** A segment that is already normalised. */
const PLAIN = /^[A-Za-z0-9._~-]+$/

/**
 * @param target path and query as received, in visible ASCII
 * @throws ProxyError 400 for invalid percent-encoding, NUL, an empty segment, a dot segment, or too many segments
 */
export function parseStorePath(target: string): StorePath {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  if (!path.startsWith('/')) throw badPath('does not begin with /')
  const isCollection = path.endsWith('/')
  // A resource has as many segments as slashes; so have the resources of a collection.
  if (path.split('/', MAX_SEGMENTS + 2).length > MAX_SEGMENTS + 1) {
    throw badPath(`has more than ${MAX_SEGMENTS} segments`)
  }
  const inner = path.slice(1, isCollection ? -1 : undefined)
  const segments = path === '/' ? [] : inner.split('/').map(normaliseSegment)
  const text = `/${segments.join('/')}${isCollection && segments.length > 0 ? '/' : ''}`
  return { text, isCollection, query: mark === -1 ? undefined : target.slice(mark + 1) }
}

/** Percent-encodes a name as one segment of a path. */
export function encodeSegment(bytes: Uint8Array): string {
  return Array.from(bytes, byte => {
    const char = String.fromCharCode(byte)
    return UNRESERVED.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }).join('')
}

/** Splits a path into its parent collection and its name there; that of a collection ends in `/`. Undefined for `/`. */
export function splitPath(text: string): { readonly parent: string; readonly name: string } | undefined {
  if (text === '/') return undefined
  const at = text.lastIndexOf('/', text.length - 2) + 1
  return { parent: text.slice(0, at), name: text.slice(at) }
}

function normaliseSegment(segment: string): string {
  const text = PLAIN.test(segment) ? segment : encodeSegment(decodeSegment(segment))
  if (text === '') throw badPath('has an empty segment')
  if (text === '.' || text === '..') throw badPath('has a dot segment')
  return text
}

function decodeSegment(segment: string): Uint8Array {
  const bytes: number[] = []
  for (let i = 0; i < segment.length; i++) {
    let byte = segment.charCodeAt(i)
    if (byte === PERCENT) {
      const pair = segment.slice(i + 1, i + 3)
      if (!HEX_PAIR.test(pair)) throw badPath('has invalid percent-encoding')
      byte = Number.parseInt(pair, 16)
      i += 2
    }
    if (byte === 0) throw badPath('contains NUL')
    bytes.push(byte)
  }
  return Uint8Array.from(bytes)
}

/**
 * Checks that a path can be requested once it is normalised, which may make it longer, and that the `next` of a listing
 * can contain it.
 * @param targetBytes maximum bytes of a request target
 * @throws ProxyError 414 if it is too long
 */
export function checkPathLength(text: string, targetBytes: number): void {
  if (text.length + LONGEST_QUERY <= targetBytes) return
  throw new ProxyError('http_request_error', 'the percent-encoded path is too long', {
    status: 414,
    reason: 'target_bytes',
    detail: `With all but letters, digits and -._~ percent-encoded, and as part of a listing's next, the path must not exceed limits.target_bytes, ${targetBytes}.`,
  })
}

function badPath(what: string): ProxyError {
  return new ProxyError('http_request_error', `the path ${what}`, {
    status: 400,
    reason: 'path',
    detail: `The path ${what}; the store accepts up to ${MAX_SEGMENTS} segments of percent-encoded bytes, without NUL, empty or dot segments.`,
  })
}

/** The error for a write with a query: the client means another resource than the one that would be changed. */
export function badQuery(): ProxyError {
  return new ProxyError('http_request_error', 'a query in a write request', {
    status: 400,
    reason: 'query',
    detail: 'The store ignores queries when it identifies resources; send the request without one.',
  })
}
