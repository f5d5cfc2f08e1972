/**
 * Serializes Cache-Status, which tells with every response how the cache handled the request (RFC 9211).
 */
import { serializeItem, Token } from 'structured-headers'
import { isToken } from '../http/token.js'
import type { CacheResult } from '../outcome.js'

const NAME = 'sluice'

/** The results for log and metrics, and their parameter in Cache-Status: `hit`, or `fwd` (RFC 9211 §2.1, §2.2). */
const RESULTS = {
  hit: 'hit',
  /** A stale response was used: while it is validated, because of an error, or because the client accepts it. */
  stale_hit: 'hit',
  /** The origin has validated the stored response. */
  revalidated: 'stale',
  /** The response to another request, which was already in progress, was used. */
  collapsed: 'uri-miss',
  uri_miss: 'uri-miss',
  vary_miss: 'vary-miss',
  stale: 'stale',
  request: 'request',
  partial: 'partial',
  method: 'method',
  bypass: 'bypass',
  /** 504: nothing is stored, and the request must not be forwarded. */
  only_if_cached: undefined,
} as const satisfies Record<CacheResult, string | undefined>

/** Why a request was forwarded (RFC 9211 §2.2). */
export type Forward = Exclude<(typeof RESULTS)[CacheResult], 'hit' | undefined>

export interface CacheStatus {
  readonly result: CacheResult
  /** Why the request was forwarded, if the result does not tell: for a collapsed request or a validation. */
  readonly fwd?: Forward | undefined
  /** The status code of the origin's response. */
  readonly fwdStatus?: number | undefined
  /** The remaining lifetime in seconds; negative if the response is stale. */
  readonly ttlSeconds?: number | undefined
  /** Whether the response was stored. */
  readonly stored?: boolean | undefined
  readonly collapsed?: boolean | undefined
  /** The URI of the cache key. */
  readonly key?: string | undefined
  /** An implementation-specific word (RFC 9211 §2.8). */
  readonly detail?: string | undefined
}

/** Characters that are not allowed in a string of structured fields (RFC 9651 §3.3.3). */
const NOT_IN_SF_STRING = /[^\x20-\x7e]/g
/** The largest integer of structured fields (RFC 9651 §3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

/** Serializes the list member of this cache; it is added after those of caches closer to the origin (RFC 9211 §2). */
export function serializeCacheStatus(status: CacheStatus): string {
  const { result, fwdStatus, ttlSeconds, key, detail } = status
  // The general code below takes twenty times as long as this, which is enough for most hits.
  if (result === 'hit' && key === undefined && detail === undefined && ttlSeconds !== undefined) {
    return `${NAME};hit;ttl=${integer(ttlSeconds)}`
  }
  const means = RESULTS[result]
  const parameters = new Map<string, Token | string | number | boolean>()
  if (means === 'hit') parameters.set('hit', true)
  else if (means !== undefined) {
    parameters.set('fwd', new Token(status.fwd ?? means))
    if (fwdStatus !== undefined) parameters.set('fwd-status', fwdStatus)
  }
  if (ttlSeconds !== undefined) parameters.set('ttl', integer(ttlSeconds))
  if (means !== undefined && means !== 'hit') {
    if (status.stored === true) parameters.set('stored', true)
    if (status.collapsed === true || result === 'collapsed') parameters.set('collapsed', true)
  }
  if (key !== undefined) parameters.set('key', key.replace(NOT_IN_SF_STRING, '?'))
  const said = detail ?? (result === 'only_if_cached' ? 'only-if-cached' : undefined)
  if (said !== undefined)
    parameters.set('detail', isSfToken(said) ? new Token(said) : said.replace(NOT_IN_SF_STRING, '?'))
  return serializeItem([new Token(NAME), parameters])
}

function integer(value: number): number {
  return Math.max(-MAX_INTEGER, Math.min(MAX_INTEGER, Math.trunc(value)))
}

/** A token of structured fields begins with a letter (RFC 9651 §3.3.4). */
function isSfToken(text: string): boolean {
  return /^[A-Za-z]/.test(text) && isToken(text)
}
