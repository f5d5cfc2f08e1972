/**
 * The cache as a Sender that wraps another (RFC 9111): it answers from the store where that is allowed, and passes all other
 * requests to the inner sender, whose responses it stores where that is allowed.
 *
 * Policy and the vetting of addresses come first, as for every sender: a client that may not reach a host never receives what
 * another client has fetched from it.
 */
import { serializeCacheStatus } from '../../cache/cache-status.js'
import { decidePart } from '../../cache/partial.js'
import { type BypassReason, bypassReason, onlyIfCached } from '../../cache/request.js'
import { decideReuse, type Reuse } from '../../cache/reuse.js'
import { matchesVary, selectResponse } from '../../cache/vary.js'
import { ProxyError } from '../../errors.js'
import type { FieldSection } from '../../http/field-section.js'
import type { Permit } from '../../policy/permit.js'
import {
  type CachedRequest,
  type Cancel,
  IGNORED_EVENTS,
  type Sender,
  type UpstreamEvents,
  type UpstreamRequest,
} from '../sender.js'
import type { Cache, CacheRun } from './cache.js'
import { deliver, type Delivered } from './delivery.js'
import { Fetch, type FetchReason } from './fetch.js'
import type { CacheEntry } from './store.js'

/** The result reported for requests that are not answered from the store. */
const RESULTS = {
  off: 'bypass',
  method: 'method',
  content: 'bypass',
  precondition: 'bypass',
  upgrade: 'bypass',
  'no-store': 'request',
} as const satisfies Record<BypassReason | 'off', FetchReason>

export class CachingSender implements Sender {
  readonly #sender: Sender
  readonly #cache: Cache

  constructor(sender: Sender, cache: Cache) {
    this.#sender = sender
    this.#cache = cache
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const { cached: asked } = request
    if (asked === undefined) return this.#sender.send(request, permit, events, fresh)
    const run = {
      cache: this.#cache,
      sender: this.#sender,
      request,
      asked,
      permit,
      events,
      again: lookUpAlone,
      afresh,
    }
    const bypass = asked.isOff ? 'off' : request.upgrade === undefined ? bypassReason(asked) : 'upgrade'
    if (bypass === undefined) return lookUp(run, true)
    const { method, fields } = asked
    if ((method === 'GET' || method === 'HEAD') && onlyIfCached(fields)) return refuse(run)
    return new Fetch(run, RESULTS[bypass], [], undefined).start(fresh)
  }

  retire(): void {
    this.#sender.retire()
  }

  close(): void {
    this.#sender.close()
  }
}

function afresh(run: CacheRun): Cancel {
  return new Fetch(run, 'uri_miss', [], undefined).start(true)
}

function lookUpAlone(run: CacheRun): Cancel {
  return lookUp(run, false)
}

/** @param joins whether the request may share the response to another one */
function lookUp(run: CacheRun, joins: boolean): Cancel {
  const found = run.cache.store.find(run.asked.key)
  if (!(found instanceof Promise)) return answer(run, found, joins)
  let cancel: Cancel | undefined
  let isCancelled = false
  void found.then(entries => {
    if (!isCancelled) cancel = answer(run, entries, joins)
  })
  return late => {
    if (cancel !== undefined) return cancel(late) === true
    isCancelled = true
    return false
  }
}

function answer(run: CacheRun, found: readonly CacheEntry[], joins: boolean): Cancel {
  const { asked, cache } = run
  if (found.length === 0) return fetch(run, 'uri_miss', found, undefined, joins)
  const entry = select(found, asked.fields)
  if (entry === undefined) return fetch(run, 'vary_miss', found, undefined, joins)
  const now = cache.wallClock()
  const reuse = decideReuse(entry.response, asked, now, asked.ttl)
  if (reuse.kind === 'validate') {
    const reason = reuse.why === 'request' ? 'request' : 'stale'
    return fetch(run, reason, found, entry, joins)
  }
  const part = decidePart(asked, entry.response, entry.length, now)
  if (part.kind === 'miss') return fetch(run, 'partial', found, entry, joins)
  if (reuse.kind === 'stale' && reuse.why === 'stale-while-revalidate') revalidate(run, found, entry)
  return deliver(run, { entry, response: entry.response, part, now, ...describeHit(reuse, asked) })
}

function select(found: readonly CacheEntry[], fields: FieldSection): CacheEntry | undefined {
  const [only] = found
  if (only !== undefined && found.length === 1) return matchesVary(only.response, fields) ? only : undefined
  const selected = selectResponse(
    found.map(({ response }) => response),
    fields,
  )
  return found.find(({ response }) => response === selected)
}

function describeHit(
  reuse: Exclude<Reuse, { kind: 'validate' }>,
  asked: CachedRequest,
): Pick<Delivered, 'outcome' | 'status'> {
  const { ttlSeconds } = reuse
  const result = reuse.kind === 'fresh' ? 'hit' : 'stale_hit'
  const key = asked.showsKey ? asked.key.uri : undefined
  return { outcome: { result, stored: false }, status: serializeCacheStatus({ result, ttlSeconds, key }) }
}

/**
 * @param found the entries under the key
 * @param selected the one that the request selects
 */
function fetch(
  run: CacheRun,
  reason: FetchReason,
  found: readonly CacheEntry[],
  selected: CacheEntry | undefined,
  joins: boolean,
): Cancel {
  const { asked, cache } = run
  if (onlyIfCached(asked.fields)) return refuse(run)
  const another = joins ? cache.fetchOf(asked.key) : undefined
  const joined = another?.join(run)
  if (joined !== undefined) return joined
  return new Fetch(run, reason, found, selected).start(false)
}

/** Validates an entry that was served stale; no client waits for the response (RFC 5861 §3). */
function revalidate(run: CacheRun, found: readonly CacheEntry[], entry: CacheEntry): void {
  if (!run.cache.mayLead(run.asked.key)) return
  new Fetch({ ...run, events: IGNORED_EVENTS }, 'stale', found, entry).startInBackground()
}

/** RFC 9111 §5.2.1.7. */
function refuse({ asked, events }: CacheRun): Cancel {
  events.cached({ result: 'only_if_cached', stored: false })
  events.failed(notCached(asked), 'never')
  return () => {}
}

function notCached(asked: CachedRequest): ProxyError {
  const key = asked.showsKey ? asked.key.uri : undefined
  return new ProxyError('http_request_error', 'nothing stored that could be used', {
    status: 504,
    reason: 'only_if_cached',
    detail: 'Cache-Control of the request has only-if-cached, and no stored response may be used for it.',
    fields: ['Cache-Status', serializeCacheStatus({ result: 'only_if_cached', key })],
  })
}
