/**
 * An answer from the cache (RFC 9111 §4): the stored head with what has become of it since, and the stored content or the
 * part of it that was asked for.
 *
 * A store that loses content while it is being read does not fail the request: the rest is fetched from the origin, if that
 * still has the same representation. If it has not, the connection is closed: the client sees a message that is incomplete,
 * and never one that looks whole.
 */
import { crc32 } from 'node:zlib'
import { currentAgeSeconds } from '../../cache/age.js'
import type { StoredResponse } from '../../cache/freshness.js'
import type { PartDecision } from '../../cache/partial.js'
import { answerFor, CONDITIONS, notModifiedFields } from '../../cache/validation.js'
import { ProxyError } from '../../errors.js'
import { isStrongMatch, parseEntityTag } from '../../http/etag.js'
import { FieldSection } from '../../http/field-section.js'
import { type Fields, fieldValue, fieldValues, withoutFields } from '../../http/fields.js'
import { serializeUnsatisfiedRange } from '../../http/range.js'
import { registeredPhrase } from '../../http/reason-phrase.js'
import type { ReceivedHead } from '../../http1/response-reader.js'
import type { CacheOutcome } from '../../outcome.js'
import type { Cancel, Flow, UpstreamEvents } from '../sender.js'
import type { CacheRun } from './cache.js'
import type { CacheEntry, ContentReceiver, Reading } from './store.js'
import { isDelimited } from './storing.js'

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

/** Whether two responses with the entity tag of this one are the same, byte for byte (RFC 9110 §8.8.1). */
export function hasStrongTag({ etag }: StoredResponse): boolean {
  return etag?.weak === false
}

/**
 * @param sum CRC-32 of what comes before a chunk
 * @returns CRC-32 of both
 */
export function addToSum(sum: number, chunk: Uint8Array): number {
  // crc32 of an empty view of no memory, such as undici hands on, is 0 whatever the sum was.
  return chunk.length === 0 ? sum : crc32(chunk, sum)
}

/** The content of an entry on its way to one client, from a store that gives it out in pieces. */
export class Delivery implements ContentReceiver, Flow {
  readonly #run: CacheRun
  readonly #entry: CacheEntry
  readonly #last: number
  /** Of the first byte that the client gets of it. */
  readonly #first: number
  /** CRC-32 of what the client has had; undefined where an entity tag is enough, or nothing can be lost. */
  #sum: number | undefined
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

  /**
   * @param first position in the stored content, as `last`
   * @param sum CRC-32 of all content before `first`, which the client has had already; undefined: it has had none, or there
   *   is no need of it
   */
  constructor(run: CacheRun, entry: CacheEntry, first: number, last: number, sum?: number) {
    this.#run = run
    this.#entry = entry
    this.#position = first
    this.#first = sum === undefined ? first : 0
    this.#last = last
    const isSummed = run.cache.store.losesContent && !hasStrongTag(entry.response)
    this.#sum = sum ?? (isSummed ? 0 : undefined)
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
    if (this.#sum !== undefined) this.#sum = addToSum(this.#sum, chunk)
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
    if (this.#sum === undefined && !hasStrongTag(response)) {
      this.lost()
      return
    }
    const recovered = {
      stored: response,
      length: this.#entry.length,
      skip: (response.head.range?.first ?? 0) + this.#position,
      had: this.#position - this.#first,
      sum: this.#sum,
      left: this.#last - this.#position + 1,
    }
    this.#recovery = new Recovery(this.#run, recovered, this)
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

/** What is to be recovered. */
interface Recovered {
  readonly stored: StoredResponse
  /** Bytes of the stored content; Infinity where that is not known. */
  readonly length: number
  /** Bytes of the representation in front of what the client is still to get. */
  readonly skip: number
  /** The last of these that it has had, and their CRC-32, where there is no strong entity tag. */
  readonly had: number
  readonly sum: number | undefined
  /** Bytes that it is still to get; Infinity: all that there are. */
  readonly left: number
}

/**
 * The rest of a representation, fetched from the origin, if that has the same one still: with the same strong entity tag,
 * or else with the same bytes where the client has had some. Those and the rest are one representation then, although it
 * may have been made anew.
 */
class Recovery implements UpstreamEvents {
  flow: Flow | undefined
  readonly #recovered: Recovered
  readonly #delivery: Delivery
  readonly #timer: NodeJS.Timeout
  #cancel: Cancel | undefined
  #skip: number
  #left: number
  #sum = 0
  #isOver = false

  constructor(run: CacheRun, recovered: Recovered, delivery: Delivery) {
    this.#recovered = recovered
    this.#skip = recovered.skip
    this.#left = recovered.left
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
    const { left } = this.#recovered
    if (!isSame(this.#recovered, head) || (left === Number.POSITIVE_INFINITY && !isDelimited(head))) {
      this.#lose()
      return
    }
    this.flow = flow
    if (this.#delivery.isPaused) flow.pause()
  }

  data(chunk: Uint8Array): void {
    if (this.#isOver) return
    const skipped = Math.min(this.#skip, chunk.length)
    if (skipped > 0 && !this.#skipBytes(chunk.subarray(0, skipped))) return
    const rest = chunk.subarray(skipped, skipped + this.#left)
    this.#left -= rest.length
    if (rest.length > 0) this.#delivery.data(rest)
    if (this.#left > 0) return
    this.cancel()
    this.#delivery.ended()
  }

  ended(): void {
    if (this.#skip > 0 || this.#left !== Number.POSITIVE_INFINITY) this.#lose()
    else if (!this.#isOver) {
      this.cancel()
      this.#delivery.ended()
    }
  }

  failed(): void {
    this.#lose()
  }

  upgraded(): void {
    this.#lose()
  }

  /** @returns whether it goes on: what the client has had is the same, as far as it has come */
  #skipBytes(bytes: Uint8Array): boolean {
    const { had, sum } = this.#recovered
    const before = Math.max(0, this.#skip - had)
    this.#skip -= bytes.length
    if (sum === undefined) return true
    this.#sum = addToSum(this.#sum, bytes.subarray(Math.min(before, bytes.length)))
    if (this.#skip > 0 || this.#sum === sum) return true
    this.#lose()
    return false
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

/** The fields that would differ if it were another representation, or the same in another form. */
const OF_REPRESENTATION = ['etag', 'last-modified', 'content-type', 'content-encoding', 'content-language']

/**
 * Whether a new response has the representation that is stored, byte for byte (RFC 9110 §8.8.1); or whether it may have it,
 * where nothing but its bytes can tell.
 */
function isSame({ stored: { head: stored }, length, sum }: Recovered, head: ReceivedHead): boolean {
  if (head.status !== 200 || stored.status > 206) return false
  const [a, b] = [stored.fields, head.fields.list].map(fields =>
    parseEntityTag(fieldValue(fields, 'etag') ?? ''),
  )
  if (a !== undefined && b !== undefined && isStrongMatch(a, b)) return true
  if (sum === undefined || a?.weak === false) return false
  const whole = stored.range === undefined ? length : stored.completeLength
  const isOfLength =
    head.contentLength === undefined ||
    whole === undefined ||
    !Number.isFinite(whole) ||
    head.contentLength === whole
  return isOfLength && OF_REPRESENTATION.every(name => isSameField(name, stored.fields, head.fields.list))
}

function isSameField(name: string, a: Fields, b: Fields): boolean {
  return fieldValues(a, name).join() === fieldValues(b, name).join()
}
