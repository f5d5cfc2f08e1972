/**
 * A request upstream on behalf of the cache: its response is passed on, stored if that is allowed (RFC 9111 §3), and shared
 * with clients that have requested the same in the meantime (collapsed forwarding, §4).
 *
 * All receivers of a response are treated alike: none receives less than all of it, or waits for ever for a slower one (see
 * receivers.ts). The request is cancelled when the last of them has left.
 */
import type { Socket } from 'node:net'
import { serializeCacheStatus } from '../../cache/cache-status.js'
import { StoredResponse } from '../../cache/freshness.js'
import { combinedHead, decidePart, mayCombine, remainderRange } from '../../cache/partial.js'
import { isConditional, mayCollapse } from '../../cache/request.js'
import { mayServeStaleOnError } from '../../cache/reuse.js'
import { decideStorable, decideUpdate, expectedLength } from '../../cache/storable.js'
import { conditionalRequest, freshened } from '../../cache/validation.js'
import { matchesVary } from '../../cache/vary.js'
import type { ProxyError } from '../../errors.js'
import { FIELD, FieldSection } from '../../http/field-section.js'
import type { Fields } from '../../http/fields.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheOutcome } from '../../outcome.js'
import type { Cancel, Flow, Retry, UpstreamEvents } from '../sender.js'
import type { CacheRun, SharedFetch } from './cache.js'
import { Receiver, type ResponseSource } from './receiver.js'
import { Receivers, type StoredAnswer } from './receivers.js'
import { type CacheEntry, NOTHING_HELD } from './store.js'
import { beginsBehind, restIncomplete, StoredBeginning } from './stored-beginning.js'
import { Storing, type Unstored } from './storing.js'

/** Why the cache sent the request upstream. */
export type FetchReason = 'uri_miss' | 'vary_miss' | 'stale' | 'request' | 'partial' | 'method' | 'bypass'

/** How long a client waits for the response to another client's request, and how long if that has begun, in milliseconds. */
const WAIT_MS = 5000
const LATE_WAIT_MS = 1000
/** The time limit for a response that no client waits for, in milliseconds. */
const BACKGROUND_MS = 60_000

export class Fetch implements UpstreamEvents, ResponseSource, SharedFetch {
  readonly #run: CacheRun
  readonly #reason: FetchReason
  readonly #storing: Storing
  /** The entry that the request selects, which may be served stale if the origin fails. */
  readonly #selected: CacheEntry | undefined
  readonly #leader: Receiver
  readonly #receivers: Receivers
  /** Clients that joined after the head of the response, and wait until it is stored. */
  readonly #late = new Set<Receiver>()
  /** The entry that is validated; undefined if none is. */
  #validated: CacheEntry | undefined
  /** The stored beginning of the representation, if only the rest is requested. */
  #beginning: CacheEntry | undefined
  #whole: StoredBeginning | undefined
  #state: 'waiting' | 'responding' | 'over' = 'waiting'
  /** Whether other requests find it in the cache, and whether they may join. */
  #isListed = false
  #isShared = false
  #isInBackground = false
  #timer: NodeJS.Timeout | undefined
  /** Releases the entries that were found. */
  #release: () => void
  #isConnected = false
  /** Whether to send the request again without a condition when this response has ended. */
  #isToBeRepeated = false
  #cancel: Cancel | undefined
  #attempts = 0
  #flow: Flow | undefined
  /** Whether content is being passed on, and whether a receiver has paused or resumed meanwhile. */
  #isPassing = false
  #isFlowChanged = false
  /** Whether the origin is paused. */
  #isHeld = false

  /**
   * @param found the entries under the key
   * @param selected the one that the request selects
   */
  constructor(
    run: CacheRun,
    reason: FetchReason,
    found: readonly CacheEntry[],
    selected: CacheEntry | undefined,
  ) {
    this.#run = run
    this.#reason = reason
    this.#storing = new Storing(run, found, () => this.flowChanged())
    this.#selected = selected
    this.#release = run.cache.store.hold(found)
    this.#leader = new Receiver(this, run)
    this.#receivers = new Receivers(this.#leader, () => this.flowChanged())
    if (run.asked.method !== 'GET' || selected === undefined) return
    const isPart = selected.response.range !== undefined
    if (reason === 'partial' && !run.asked.fields.has(FIELD.range)) this.#beginning = selected
    else if (reason !== 'stale' && reason !== 'request') return
    else if (selected.response.isValidatable && !isPart) this.#validated = selected
  }

  /**
   * @param fresh as for `Sender.send`
   * @returns a function that cancels the answer to the client whose request this is
   */
  start(fresh: boolean): Cancel {
    const { cache, asked } = this.#run
    const isMiss = this.#reason === 'uri_miss' || this.#reason === 'vary_miss' || this.#reason === 'stale'
    const isPlain = (this.#validated !== undefined || !isConditional(asked)) && mayCollapse(asked)
    if (this.#isInBackground || (isMiss && isPlain && cache.mayLead(asked.key))) {
      this.#isShared = isPlain
      this.#list()
    }
    this.#send(fresh)
    return this.#leader.cancel
  }

  /** Starts without a client. There is only one such request for a key, and it has a time limit. */
  startInBackground(): void {
    this.#isInBackground = true
    this.#timer = setTimeout(this.#leader.cancel, BACKGROUND_MS).unref()
    this.start(false)
  }

  #list(): void {
    const { cache, asked } = this.#run
    this.#isListed = true
    cache.began(asked.key, this)
  }

  /** No further client may join. */
  #unlist(): void {
    this.#isShared = false
    if (!this.#isListed) return
    this.#isListed = false
    const { cache, asked } = this.#run
    cache.ended(asked.key, this)
  }

  join(run: CacheRun): Cancel | undefined {
    if (!this.#isShared || !mayCollapse(run.asked)) return undefined
    const receiver = new Receiver(this, run)
    const isLate = this.#state !== 'waiting'
    if (isLate) this.#late.add(receiver)
    else this.#receivers.add(receiver)
    receiver.wait(isLate ? LATE_WAIT_MS : WAIT_MS)
    return receiver.cancel
  }

  outdated(): void {
    this.#unlist()
    this.#releaseLate()
  }

  flowChanged(): void {
    // An origin that resumes may deliver the next chunk synchronously, before all receivers have the present one.
    this.#isFlowChanged = this.#isPassing
    if (this.#state !== 'responding' || this.#isPassing) return
    const { isKept, isBehind } = this.#storing
    if (!isKept) this.#recoverBehind()
    if (this.#receivers.size === 0) return
    const isHeld = this.#receivers.isHolding(isKept) || isBehind
    if (isHeld === this.#isHeld) return
    this.#isHeld = isHeld
    if (isHeld) this.#flow?.pause()
    else this.#flow?.resume()
  }

  replacesLate(): boolean {
    return this.#state === 'waiting' && this.#serveStale(undefined)
  }

  left(receiver: Receiver): void {
    this.#late.delete(receiver)
    if (!this.#receivers.delete(receiver) || this.#state === 'over') return
    if (this.#receivers.size > 0) this.flowChanged()
    else this.#abandon()
  }

  /** The last receiver has left. */
  #abandon(): void {
    this.#end()
    this.#cancel?.()
    this.#whole?.cancel()
    this.#storing.abort()
    this.#releaseLate()
  }

  /** Receivers that are behind get the rest from the origin, because the store does not keep it. */
  #recoverBehind(): void {
    const { response, length } = this.#storing
    if (response === undefined) return
    this.#receivers.recoverBehind(response, length)
    if (this.#receivers.size === 0) this.#abandon()
  }

  connected(address: string, connectMs: number | undefined, isSent: boolean): void {
    this.#isConnected = true
    this.#leader.events?.connected(address, connectMs, isSent)
  }

  sent(): void {
    this.#leader.events?.sent()
  }

  interim(head: ReceivedHead): void {
    this.#leader.events?.interim(head)
  }

  cached(): void {}

  upgraded(head: ReceivedHead, socket: Socket, rest: Buffer): void {
    this.#end()
    const { events } = this.#leader
    if (events === undefined) socket.destroy()
    else events.upgraded(head, socket, rest)
  }

  responded(head: ReceivedHead, flow: Flow): void {
    if (this.#state !== 'waiting') return
    this.#flow = flow
    if (this.#validated !== undefined && head.status === 304) this.#validate(this.#validated, head)
    else if (this.#beginning !== undefined && head.status !== 200) this.#complete(this.#beginning, head, flow)
    else if (!this.#serveStale(head.status)) this.#pass(head)
  }

  data(chunk: Uint8Array): void {
    if (this.#whole === undefined) this.#content(chunk)
    else this.#whole.restData(chunk)
  }

  ended(trailers: Fields): void {
    if (this.#whole === undefined) this.#contentEnded(trailers)
    else this.#whole.restEnded(trailers)
  }

  #content(chunk: Uint8Array): void {
    if (this.#state !== 'responding') return
    if (this.#whole !== undefined && chunk.length > (this.#storing.left ?? 0)) {
      this.#cancel?.()
      this.failed(restIncomplete(), 'never')
      return
    }
    this.#isPassing = true
    this.#storing.write(chunk)
    const { isKept } = this.#storing
    this.#receivers.data(chunk, isKept)
    this.#isPassing = false
    if (!isKept && this.#isShared) this.#unshare()
    if (this.#isFlowChanged || (!isKept && this.#receivers.areSeveral)) this.flowChanged()
  }

  /** The response will not be stored: clients that wait for that start over, and the next ones do not wait. */
  #unshare(): void {
    const { cache, asked } = this.#run
    cache.unshared(asked.key)
    this.outdated()
  }

  #contentEnded(trailers: Fields): void {
    if (this.#isToBeRepeated) {
      this.#isToBeRepeated = false
      this.#send(false)
    }
    if (this.#state !== 'responding') return
    if (this.#whole !== undefined && this.#storing.left !== 0) {
      this.failed(restIncomplete(), 'never')
      return
    }
    this.#end()
    const kept = this.#storing.end()
    const behind = [...this.#receivers].filter(receiver => !receiver.ended(trailers))
    if (kept instanceof Promise) void kept.then(entry => this.#settle(entry, behind))
    else this.#settle(kept, behind)
  }

  failed(error: ProxyError, retry: Retry): void {
    if (this.#state === 'over') return
    if (this.#state === 'waiting') {
      if (retry === 'reused-connection') {
        this.#send(true)
        return
      }
      // As in relayToOneOf: another hop may have a current response.
      const mayMove = !this.#isConnected || error.type === 'connection_terminated'
      if (!(this.#run.asked.hasOtherHops && mayMove) && this.#serveStale(undefined)) return
    }
    this.#end()
    this.#whole?.cancel()
    this.#storing.abort()
    for (const receiver of this.#receivers) receiver.failed(error)
    this.#releaseLate()
  }

  #send(fresh: boolean): void {
    const { request, permit, sender } = this.#run
    const attempt = ++this.#attempts
    const validated = this.#validated
    const rest = this.#beginning && remainderRange(request.fields, this.#beginning.response)
    if (rest === undefined) this.#beginning = undefined
    const fields = validated === undefined ? rest : conditionalRequest(request.fields, validated.response)
    const sent = fields === undefined ? request : { ...request, fields }
    this.#storing.sent()
    const cancel = sender.send(sent, permit, this, fresh)
    // `send` may have failed synchronously, and another attempt been started; or everything may have ended.
    if (attempt === this.#attempts) this.#cancel = cancel
    if (this.#state === 'over') cancel()
  }

  /** No further event of the origin is expected. */
  #end(): void {
    this.#state = 'over'
    clearTimeout(this.#timer)
    this.#receivers.end()
    this.#release()
    this.#release = NOTHING_HELD
    this.#unlist()
  }

  /** The origin has confirmed the stored response (RFC 9111 §4.3.3, §4.3.4). */
  #validate(entry: CacheEntry, notModified: ReceivedHead): void {
    const { store } = this.#run.cache
    const head = freshened(entry.response.head, notModified, this.#storing.times, this.#run.asked.fields)
    if (head === undefined) {
      // The 304 is about another representation than the validated one.
      store.remove([entry])
      this.#validated = undefined
      this.#isToBeRepeated = true
      return
    }
    this.#end()
    const response = new StoredResponse(head)
    const what = decideUpdate(this.#run.asked, response)
    if (what === 'remove') store.remove([entry])
    else if (what === 'update' && !this.#storing.isOutdated) store.update(entry, head)
    const whose = what === 'update' ? undefined : this.#leader
    this.#deliverStored(entry, response, { result: 'revalidated', fwdStatus: 304, whose })
  }

  /** The rest of a representation arrives, whose beginning is stored (RFC 9111 §3.4). */
  #complete(beginning: CacheEntry, rest: ReceivedHead, upstream: Flow): void {
    const { asked, cache } = this.#run
    const { store } = cache
    const stored = beginning.response.head
    const newer = mayCombine(stored, rest)
      ? decideStorable(asked, rest, this.#storing.times, asked.ttl)
      : undefined
    const head = newer?.kind === 'store' ? combinedHead(stored, newer.head) : undefined
    if (head?.status !== 200 || !beginsBehind(stored, rest)) {
      // The complete representation is requested instead; the client receives nothing of this response.
      store.remove([beginning])
      this.#beginning = undefined
      this.#cancel?.()
      this.#send(true)
      return
    }
    this.#state = 'responding'
    const response = new StoredResponse(head)
    const length = beginning.length + (expectedLength(rest) ?? 0)
    const why = this.#storing.create(response, length)
    this.#whole = new StoredBeginning(store, beginning, upstream, {
      data: chunk => this.#content(chunk),
      ended: trailers => this.#contentEnded(trailers),
      lost: () => {
        this.#cancel?.()
        this.failed(restIncomplete(), 'never')
      },
    })
    this.#flow = this.#whole
    const fields = FieldSection.of(response.clientFields)
    const { status, reason } = head
    const whole = { status, reason, minor: rest.minor, fields, contentLength: length }
    this.#respond(this.#leader, whole, 'partial', why, 206)
  }

  /**
   * Answers with a stale response if the origin has failed and that is allowed (RFC 9111 §4.2.4, RFC 5861 §4).
   * @param status of the origin's response; undefined if there is none
   */
  #serveStale(status: number | undefined): boolean {
    const entry = this.#selected
    const { asked, cache } = this.#run
    if (entry === undefined) return false
    const { response, length } = entry
    const now = cache.wallClock()
    if (!mayServeStaleOnError(response, asked, { now, status, ttl: asked.ttl })) return false
    if (decidePart(asked, response, length, now).kind === 'miss') return false
    this.#end()
    this.#cancel?.()
    this.#deliverStored(entry, response, { result: 'stale_hit', fwdStatus: status, whose: undefined })
    return true
  }

  #deliverStored(entry: CacheEntry, response: StoredResponse, answer: StoredAnswer): void {
    if (this.#isInBackground) this.#leader.cancel()
    this.#receivers.deliverStored(entry, response, answer)
    this.#releaseLate()
  }

  /** Passes the response to all waiting clients, and stores it if that is allowed. */
  #pass(head: ReceivedHead): void {
    const { cache, asked } = this.#run
    this.#state = 'responding'
    const storing = this.#storing
    storing.invalidate(head)
    if (asked.method === 'HEAD' && this.#selected !== undefined) storing.updateByHead(head, this.#selected)
    const why = storing.begin(head)
    if (why !== undefined && this.#isListed) {
      cache.unshared(asked.key)
      this.#unlist()
    }
    for (const receiver of [...this.#receivers]) {
      if (receiver === this.#leader) this.#respond(receiver, head, this.#reason, why)
      else if (storing.response !== undefined && matchesVary(storing.response, receiver.run.asked.fields)) {
        this.#respond(receiver, head, 'collapsed', undefined)
      } else receiver.goAlone()
    }
    this.#receivers.begin(storing.response)
  }

  #respond(
    receiver: Receiver,
    head: ReceivedHead,
    result: FetchReason | 'collapsed',
    why: Unstored | undefined,
    fwdStatus = head.status,
  ): void {
    const { showsKey, key } = receiver.run.asked
    const stored = why === undefined
    const status = serializeCacheStatus({
      result: this.#reason,
      collapsed: result === 'collapsed',
      fwdStatus,
      stored,
      key: showsKey ? key.uri : undefined,
      detail: why,
    })
    const outcome: CacheOutcome = stored ? { result, stored } : { result, stored, detail: why }
    receiver.respond({ ...head, fields: head.fields.plus('Cache-Status', status) }, outcome)
  }

  /** @param behind receivers that lack content which has been received */
  #settle(entry: CacheEntry | undefined, behind: readonly Receiver[]): void {
    const { response, bytes } = this.#storing
    if (response !== undefined) {
      for (const receiver of behind) receiver.catchUp(response, entry, bytes)
    }
    this.#releaseLate()
  }

  #releaseLate(): void {
    for (const receiver of [...this.#late]) receiver.goAlone()
  }
}
