/**
 * The name of a resource in the store: the path of its URI, decoded once and written in one way (RFC 3986 §2.1, §3.3,
 * §6.2.2).
 *
 * Names are bytes, of any encoding and case-sensitive. Each segment is kept with all but unreserved characters
 * percent-encoded, so that two spellings of one path are one name and `%2F` stays another thing than `/`. Dot segments
 * are refused, however they are spelled: a client that sends one means a place that another part of the way there may
 * have computed otherwise.
 */
import { ProxyError } from '../../errors.js'

export interface StorePath {
  /** Percent-encoded, begins with `/`, in the one spelling that there is for it. */
  readonly text: string
  /** A path that ends in `/` names the collection of what is below it. */
  readonly isCollection: boolean
  /** What stands behind the first `?`, or undefined. The query is no part of the name. */
  readonly query: string | undefined
}

/** Each is a folder of its own on the disk, for which no limit of content counts. */
const MAX_SEGMENTS = 64

/** What `next` of a listing has beside a path, with its largest `limit`. */
const LONGEST_QUERY = '?limit=1000&after='.length

const PERCENT = 0x25
const HEX_PAIR = /^[0-9A-Fa-f]{2}$/
const UNRESERVED = /^[A-Za-z0-9._~-]$/
/** A segment that is in its one spelling already. */
const PLAIN = /^[A-Za-z0-9._~-]+$/

/**
 * @param target path and query as received, visible ASCII
 * @throws ProxyError 400 on a broken percent-encoding, NUL, an empty segment or a dot segment, or too many segments
 */
export function parseStorePath(target: string): StorePath {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  if (!path.startsWith('/')) throw badPath('does not begin with /')
  const isCollection = path.endsWith('/')
  // As many slashes as a path has, so many segments has it, or what is in the collection that it names.
  if (path.split('/', MAX_SEGMENTS + 2).length > MAX_SEGMENTS + 1) {
    throw badPath(`has more than ${MAX_SEGMENTS} segments`)
  }
  const inner = path.slice(1, isCollection ? -1 : undefined)
  const segments = path === '/' ? [] : inner.split('/').map(normaliseSegment)
  const text = `/${segments.join('/')}${isCollection && segments.length > 0 ? '/' : ''}`
  return { text, isCollection, query: mark === -1 ? undefined : target.slice(mark + 1) }
}

/** One segment of a path for a name that is not taken from a request. */
export function encodeSegment(bytes: Uint8Array): string {
  return Array.from(bytes, byte => {
    const char = String.fromCharCode(byte)
    return UNRESERVED.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }).join('')
}

/** The collection that holds a path, and the path's name in it; collections keep their `/`. Undefined for `/`. */
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
      if (!HEX_PAIR.test(pair)) throw badPath('has a broken percent-encoding')
      byte = Number.parseInt(pair, 16)
      i += 2
    }
    if (byte === 0) throw badPath('has a NUL')
    bytes.push(byte)
  }
  return Uint8Array.from(bytes)
}

/**
 * A name is longer with its escapes than it may have come, and longest in the reference that goes on with a listing
 * behind it.
 * @param targetBytes the longest request target
 * @throws ProxyError 414 for a path that could not be asked for, or not be listed past
 */
export function checkPathLength(text: string, targetBytes: number): void {
  if (text.length + LONGEST_QUERY <= targetBytes) return
  throw new ProxyError('http_request_error', 'the path is too long with its escapes', {
    status: 414,
    reason: 'target_bytes',
    detail: `With all but letters, digits and -._~ escaped, and in a listing's next, the path has to fit in limits.target_bytes, ${targetBytes}.`,
  })
}

function badPath(what: string): ProxyError {
  return new ProxyError('http_request_error', `the path ${what}`, {
    status: 400,
    reason: 'path',
    detail: `The path ${what}; the store takes up to ${MAX_SEGMENTS} segments of percent-encoded bytes, without NUL, empty or dot segments.`,
  })
}

/** A client that writes to a path with a query means another resource than the one that would be changed. */
export function badQuery(): ProxyError {
  return new ProxyError('http_request_error', 'a query in a request that writes', {
    status: 400,
    reason: 'query',
    detail: 'The store has no resources that differ by their query; leave it out.',
  })
}
