/**
 * An answer from the cache (RFC 9111 §4): the stored head with what has become of it since, and the stored content or the
 * part of it that was asked for.
 *
 * A store that loses content while it is being read does not fail the request: the rest is fetched from the origin, if that
 * still has the same representation.
 */
import { currentAgeSeconds } from '../../cache/age.js'
import type { StoredResponse } from '../../cache/freshness.js'
import type { PartDecision } from '../../cache/partial.js'
import { answerFor, CONDITIONS, notModifiedFields } from '../../cache/validation.js'
import { ProxyError } from '../../errors.js'
import { isStrongMatch, parseEntityTag } from '../../http/etag.js'
import { FieldSection } from '../../http/field-section.js'
import { type Fields, fieldValue, withoutFields } from '../../http/fields.js'
import { serializeUnsatisfiedRange } from '../../http/range.js'
import { registeredPhrase } from '../../http/reason-phrase.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheOutcome } from '../../outcome.js'
import type { Cancel, Flow, UpstreamEvents } from '../sender.js'
import type { CacheRun } from './cache.js'
import type { CacheEntry, ContentReceiver, Reading } from './store.js'

/** What is delivered, and what is said of it. */
export interface Delivered {
  readonly entry: CacheEntry
  /** Of the entry, or what a validation has just made of that. */
  readonly response: StoredResponse
  readonly part: Exclude<PartDecision, { readonly kind: 'miss' }>
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly outcome: CacheOutcome
  /** The value of Cache-Status. */
  readonly status: string
}

const NO_FLOW: Flow = { pause: () => {}, resume: () => {} }
const NO_CANCEL: Cancel = () => {}
const CONTENT_RANGE: ReadonlySet<string> = new Set(['content-range'])
const NONE: Fields = Object.freeze([])
/** Milliseconds in which the rest has to begin to come from the origin. */
const RECOVERY_MS = 10_000

export function deliver(run: CacheRun, delivered: Delivered): Cancel {
  const { asked } = run
  const { entry, response, part, now, outcome, status } = delivered
  /** With what is known only now. */
  const headOf = (
    code: number,
    fields: Fields,
    contentLength: number | undefined,
    lines?: string,
  ): ReceivedHead => ({
    status: code,
    reason: code === response.status ? response.reason : registeredPhrase(code),
    minor: response.minor,
    lines,
    fields: FieldSection.of([
      ...fields,
      'Age',
      String(currentAgeSeconds(response, now)),
      'Cache-Status',
      status,
    ]),
    contentLength,
  })
  if (answerFor(asked, response, now) === 'not-modified') {
    return send(run, outcome, headOf(304, notModifiedFields(response.clientFields), undefined), undefined)
  }
  if (part.kind === 'unsatisfiable') {
    const fields = ['Content-Range', serializeUnsatisfiedRange(part.completeLength)]
    return send(run, outcome, headOf(416, fields, 0), undefined)
  }
  const isPart = part.kind === 'part'
  const first = isPart ? part.first : 0
  const last = isPart ? part.last : entry.length - 1
  const length = last - first + 1
  const answer = isPart
    ? headOf(206, withContentRange(response.clientFields, part.contentRange), length)
    : headOf(response.status, NONE, length, response.lines)
  if (asked.method === 'HEAD') return send(run, outcome, answer, undefined)
  const { whole } = entry
  if (whole === undefined) return new Delivery(run, entry, first, last).respond(answer, outcome)
  return send(run, outcome, answer, isPart ? whole.subarray(first, last + 1) : whole)
}

function send(
  { events }: CacheRun,
  outcome: CacheOutcome,
  head: ReceivedHead,
  content: Uint8Array | undefined,
): Cancel {
  events.cached(outcome)
  events.responded(head, NO_FLOW)
  if (content !== undefined && content.length > 0) events.data(content)
  events.ended(NONE)
  return NO_CANCEL
}

function withContentRange(fields: Fields, contentRange: string): Fields {
  return [...withoutFields(fields, CONTENT_RANGE), 'Content-Range', contentRange]
}

/** The content of an entry on its way to one client, from a store that gives it out in pieces. */
export class Delivery implements ContentReceiver, Flow {
  readonly #run: CacheRun
  readonly #entry: CacheEntry
  readonly #last: number
  /** Of the next byte. */
  #position: number
  #reading: Reading | undefined
  #recovery: Recovery | undefined
  isPaused = false
  #isOver = false
  /** Sends the head; undefined when it is with the client. */
  #begin: (() => void) | undefined
  /** What ends the request that has gone to its origin in place of this. */
  #cancelElsewhere: Cancel | undefined

  /** @param first position in the stored content, as `last` */
  constructor(run: CacheRun, entry: CacheEntry, first: number, last: number) {
    this.#run = run
    this.#entry = entry
    this.#position = first
    this.#last = last
  }

  /** Responds once there is content to send: until then the request can still go to its origin. */
  respond(head: ReceivedHead, outcome: CacheOutcome): Cancel {
    this.#begin = () => {
      this.#begin = undefined
      this.#run.events.cached(outcome)
      this.#run.events.responded(head, this)
    }
    return this.start()
  }

  /** Begins the content. */
  start(): Cancel {
    if (this.#position > this.#last) {
      this.ended()
      return NO_CANCEL
    }
    this.#reading = this.#run.cache.store.read(this.#entry, this.#position, this.#last, this)
    if (this.isPaused) this.#reading.pause()
    return this.cancel
  }

  readonly cancel: Cancel = () => {
    this.#isOver = true
    this.#reading?.cancel()
    this.#recovery?.cancel()
    this.#cancelElsewhere?.()
  }

  pause(): void {
    this.isPaused = true
    this.#reading?.pause()
    this.#recovery?.flow?.pause()
  }

  resume(): void {
    this.isPaused = false
    this.#reading?.resume()
    this.#recovery?.flow?.resume()
  }

  data(chunk: Uint8Array): void {
    if (this.#isOver) return
    this.#begin?.()
    this.#position += chunk.length
    this.#run.events.data(chunk)
  }

  ended(): void {
    if (this.#isOver) return
    this.#begin?.()
    this.#isOver = true
    this.#run.events.ended(NONE)
  }

  failed(): void {
    if (this.#isOver) return
    this.#reading = undefined
    if (this.#begin !== undefined) {
      this.#isOver = true
      this.#cancelElsewhere = this.#run.afresh(this.#run)
      return
    }
    const { response } = this.#entry
    const { etag, head } = response
    if (etag === undefined || etag.weak) {
      this.lost()
      return
    }
    const skipped = (head.range?.first ?? 0) + this.#position
    this.#recovery = new Recovery(this.#run, response, skipped, this.#last - this.#position + 1, this)
  }

  /** Neither the store nor the origin has the rest. */
  lost(): void {
    if (this.#isOver) return
    this.#isOver = true
    const error = new ProxyError(
      'http_response_incomplete',
      'stored content was lost, and the origin has another one',
    )
    this.#run.events.failed(error, 'never')
  }
}

/** The rest of a representation, fetched from the origin, if that has the same one still. */
class Recovery implements UpstreamEvents {
  flow: Flow | undefined
  readonly #stored: StoredResponse
  readonly #delivery: Delivery
  readonly #timer: NodeJS.Timeout
  #cancel: Cancel | undefined
  /** Bytes of the representation that the client has, and that it is still to get. */
  #skip: number
  #left: number
  #isOver = false

  /** @param stored has a strong entity tag */
  constructor(run: CacheRun, stored: StoredResponse, skip: number, left: number, delivery: Delivery) {
    this.#stored = stored
    this.#skip = skip
    this.#left = left
    this.#delivery = delivery
    this.#timer = setTimeout(() => this.#lose(), RECOVERY_MS)
    const { request, permit, sender } = run
    const whole = { ...request, method: 'GET', fields: withoutFields(request.fields, CONDITIONS) }
    this.#cancel = sender.send(whole, permit, this, true)
    if (this.#isOver) this.#cancel()
  }

  cancel(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#cancel?.()
  }

  connected(): void {}
  sent(): void {}
  interim(): void {}
  cached(): void {}

  responded(head: ReceivedHead, flow: Flow): void {
    clearTimeout(this.#timer)
    if (!isSame(this.#stored, head)) {
      this.#lose()
      return
    }
    this.flow = flow
    if (this.#delivery.isPaused) flow.pause()
  }

  data(chunk: Uint8Array): void {
    if (this.#isOver) return
    const skipped = Math.min(this.#skip, chunk.length)
    this.#skip -= skipped
    const rest = chunk.subarray(skipped, skipped + this.#left)
    this.#left -= rest.length
    if (rest.length > 0) this.#delivery.data(rest)
    if (this.#left > 0) return
    this.cancel()
    this.#delivery.ended()
  }

  ended(): void {
    this.#lose()
  }

  failed(): void {
    this.#lose()
  }

  upgraded(): void {
    this.#lose()
  }

  #lose(): void {
    if (this.#isOver) return
    // It may be called while the request is being sent.
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#cancel?.()
    this.#delivery.lost()
  }
}

/** Whether a new response has the representation that is stored, byte for byte (RFC 9110 §8.8.1). */
function isSame({ head: stored }: StoredResponse, head: ReceivedHead): boolean {
  if (head.status !== 200 || stored.status > 206) return false
  const [a, b] = [stored.fields, head.fields.list].map(fields =>
    parseEntityTag(fieldValue(fields, 'etag') ?? ''),
  )
  return a !== undefined && b !== undefined && isStrongMatch(a, b)
}
