/**
 * Cache-Status (RFC 9211): says on every response that goes from or past the cache what the cache has made of the
 * request.
 */
import { serializeItem, Token } from 'structured-headers'
import { isToken } from '../http/token.js'
import type { CacheResult } from '../outcome.js'

const NAME = 'sluice'

/** What became of a request, for the log and the metrics, and how Cache-Status has it (RFC 9211 §2.1, §2.2). */
const RESULTS = {
  hit: 'hit',
  /** Used though stale: while it is validated, on an error, or because the client puts up with it. */
  stale_hit: 'hit',
  /** The origin has said that what is stored is current. */
  revalidated: 'stale',
  /** Answered with the response to another request that was under way. */
  collapsed: 'uri-miss',
  uri_miss: 'uri-miss',
  vary_miss: 'vary-miss',
  stale: 'stale',
  request: 'request',
  partial: 'partial',
  method: 'method',
  bypass: 'bypass',
  /** 504: neither stored nor to be had. */
  only_if_cached: undefined,
} as const satisfies Record<CacheResult, string | undefined>

/** Why a request was forwarded (RFC 9211 §2.2). */
export type Forward = Exclude<(typeof RESULTS)[CacheResult], 'hit' | undefined>

export interface CacheStatus {
  readonly result: CacheResult
  /** Why it was forwarded, where the result does not say: what a collapsed request or a validation was for. */
  readonly fwd?: Forward | undefined
  /** The status that the origin has answered with. */
  readonly fwdStatus?: number | undefined
  /** What is left of the lifetime, in seconds; less than nothing when it is stale. */
  readonly ttlSeconds?: number | undefined
  /** Whether the response was stored. */
  readonly stored?: boolean | undefined
  readonly collapsed?: boolean | undefined
  /** The URI of the cache key. */
  readonly key?: string | undefined
  /** A word of ours. */
  readonly detail?: string | undefined
}

/** What a string of structured fields cannot have (RFC 9651 §3.3.3). */
const NOT_IN_SF_STRING = /[^\x20-\x7e]/g
/** The largest integer of structured fields (RFC 9651 §3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

/** The member of the list that is this cache's; those of caches behind it come before it (RFC 9211 §2). */
export function serializeCacheStatus(status: CacheStatus): string {
  const { result, fwdStatus, ttlSeconds, key, detail } = status
  // What most hits have to say costs twenty times as much below.
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
