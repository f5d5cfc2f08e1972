/**
 * How long what is stored may stay in Redis. Everything has a time to live, so that nothing needs to be tidied up: what is
 * left of the freshness lifetime (RFC 9111 §4.2) and a day more in which it can be validated.
 */
import type { StoredResponse } from '../../../cache/freshness.js'
import type { KeyNames } from './keys.js'
import type { Command } from './link.js'

/** Stale responses are kept for that, to be validated (RFC 9111 §4.3). */
const VALIDATION_MS = 24 * 60 * 60 * 1_000
/** The longest lifetime that is told from others (RFC 9111 §1.2.2); Redis refuses one that is far beyond it. */
const LONGEST_MS = 2 ** 31 * 1_000
/** Content whose record is not there yet. */
const WRITING_MS = 60 * 60 * 1_000
/** Content that was forgotten, for those who are reading it. */
const LINGER_MS = 60_000
/**
 * An invalidation, for requests that were sent before it and whose responses have not begun: from then on the generation
 * of their key tells. `limits.response_timeout` is a minute unless it is configured.
 */
const INVALIDATION_MS = 15 * 60_000
/** Content outlives its record by that, as clocks of several machines differ. */
const MARGIN_MS = 60_000

/** Milliseconds for which a response stays fresh, from `now` on; 0 and less when it is stale. */
export type FreshForMs = (response: StoredResponse, now: number) => number

/** Milliseconds, at least a day. */
export function timeToLive(response: StoredResponse, now: number, freshForMs: FreshForMs): number {
  const freshMs = freshForMs(response, now)
  return (freshMs > 0 ? Math.ceil(Math.min(freshMs, LONGEST_MS)) : 0) + VALIDATION_MS
}

/** Has the records of a key, and the generation that they are found by, live at least that long. */
export function keepRecords({ uri, entries }: KeyNames, ttlMs: number): Command[] {
  return [...atLeast(entries, ttlMs), ...atLeast(uri.generations, ttlMs)]
}

/** Has the generation of a key live as long as content may be written. */
export function keepGeneration({ uri }: KeyNames): Command[] {
  return atLeast(uri.generations, WRITING_MS)
}

/** Has content live as long as its record, of which there is one. */
export function keepContent(name: string, ttlMs: number): Command {
  return ['PEXPIRE', name, String(ttlMs + MARGIN_MS)]
}

export function keepWhileWriting(name: string): Command {
  return ['PEXPIRE', name, String(WRITING_MS)]
}

export function keepWhileRead(name: string): Command {
  return ['PEXPIRE', name, String(LINGER_MS), 'LT']
}

/** Notes an invalidation, for as long as it may matter. */
export function noteInvalidation({ invalidation }: KeyNames, id: string): Command {
  return ['SET', invalidation, id, 'PX', String(INVALIDATION_MS)]
}

/** GT alone does nothing to a key that has no time to live yet, and a name that is gone stays so. */
function atLeast(name: string, ttlMs: number): Command[] {
  return [
    ['PEXPIRE', name, String(ttlMs), 'NX'],
    ['PEXPIRE', name, String(ttlMs), 'GT'],
  ]
}
