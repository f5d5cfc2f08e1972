/**
 * The freshness of a stored response, and what else its fields say about its reuse (RFC 9111 §4.2.1, §5.2.2).
 *
 * The fields are parsed once, when a store loads an entry, so that a hit only compares numbers. A lifetime that is given
 * but cannot be parsed is zero: the response is always stale (§4.2.1).
 */
import { parseHttpDate } from '../http/date.js'
import { type EntityTag, parseEntityTag } from '../http/etag.js'
import { type Fields, fieldValue, fieldValues, ownText, splitList, withoutFields } from '../http/fields.js'
import type { ByteRange } from '../http/range.js'
import { registeredPhrase } from '../http/reason-phrase.js'
import { fieldLines } from '../http1/content-writer.js'
import { initialAgeMs, parseAge } from './age.js'
import { type Directives, parseDirectives } from './cache-control.js'
import { heuristicLifetimeMs } from './heuristics.js'
import type { StoredHead } from './stored-response.js'
import { parseTargeted, TARGETS } from './targeted.js'

/** The values of the fields that caching depends on, by name. */
type Lines = Readonly<Record<(typeof READ)[number], string[]>>
const READ = [
  ...TARGETS,
  'age',
  'cache-control',
  'date',
  'etag',
  'expires',
  'last-modified',
  'set-cookie',
  'vary',
] as const
const AGE: ReadonlySet<string> = new Set(['age'])
const NONE: readonly never[] = Object.freeze([])
const READ_NAMES: ReadonlySet<string> = new Set(READ)

/** An entity tag without its quotes, as some origins send it; `*` is excluded, as it would match any. */
const UNQUOTED_TAG = /^(?!\*$)[\x21\x23-\x2b\x2d-\x7e\x80-\xff]+$/

/**
 * A stored response and what its fields say about its use. The fields are kept as one text that is ready to be sent: a
 * memory store has up to a million of these, a hit reads memory that is in no cache of the processor, and each garbage
 * collection takes longer the larger the heap is.
 */
export class StoredResponse {
  // Members that each hit reads come first, so that they are in two lines of the processor's cache and not in four.
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  readonly selecting: StoredHead['selecting']
  /** False if no request matches it: Vary contains `*`, or names other fields than were recorded (RFC 9111 §4.1). */
  readonly isSelectable: boolean
  /** Whether it must be validated before each use (RFC 9111 §5.2.2.4), or must not be stored according to its fields now. */
  readonly noCache: boolean
  /** When it was received; milliseconds since the epoch. */
  readonly respondedAt: number
  /** Its age when it was received. */
  readonly initialAgeMs: number
  readonly lifetimeMs: number
  readonly range: ByteRange | undefined
  /** Whether all of its fields are sent to clients: neither Age, which is computed for each response, nor framing fields. */
  readonly #isReady: boolean
  /** The lines of all its fields, each with its line end. */
  readonly #lines: string

  readonly method: string
  readonly completeLength: number | undefined
  /** When the request was sent; milliseconds since the epoch. */
  readonly requestedAt: number
  /** Date, or when it was received if it has none; milliseconds since the epoch. */
  readonly dateMs: number
  /** Last-Modified, if it is a date; milliseconds since the epoch. */
  readonly lastModifiedMs: number | undefined
  /** Whether its lifetime, which may be zero, is given explicitly. */
  readonly isExplicit: boolean
  /** Whether it must never be used when stale (§4.2.4). */
  readonly mustRevalidate: boolean
  readonly isPublic: boolean
  /** Whether it does not change while it is fresh (RFC 8246 §2). */
  readonly isImmutable: boolean
  /** How long it may be used after it has become stale (RFC 5861 §3, §4); 0 without the directive. */
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly setsCookie: boolean

  /**
   * Never throws, whatever the fields contain. All texts are copied: those of a received head are usually slices of a
   * larger text, which they would keep in memory.
   */
  constructor(head: StoredHead) {
    const { method, reason, selecting, respondedAt } = head
    this.method = method === 'GET' ? 'GET' : ownText(method)
    this.status = head.status
    const registered = registeredPhrase(head.status)
    this.reason = reason === registered ? registered : ownText(reason)
    this.minor = head.minor
    this.selecting = selecting.length === 0 ? NONE : selecting.map(text => text && ownText(text))
    this.requestedAt = head.requestedAt
    this.respondedAt = respondedAt
    this.range = head.range
    this.completeLength = head.completeLength
    const lines = readLines(head.fields)
    const text = allLines(head.fields)
    this.#lines = ownText(text)
    this.#isReady = lines.age.length === 0 && fieldLines(head.fields) === text
    const targeted = targetedDirectives(lines)
    const directives = targeted ?? parseDirectives(lines['cache-control'])

    this.dateMs = onlyDate(lines.date, respondedAt) ?? respondedAt
    this.initialAgeMs = initialAgeMs(parseAge(lines.age), this.dateMs, head)
    this.isPublic = directives.hasWithoutArgument('public')
    this.isImmutable = directives.hasWithoutArgument('immutable')
    this.setsCookie = lines['set-cookie'].length > 0
    this.noCache =
      directives.fieldNames('no-cache') === 'all' ||
      directives.fieldNames('private') === 'all' ||
      (directives.has('no-store') && !directives.has('must-understand'))
    this.mustRevalidate =
      this.noCache ||
      directives.has('must-revalidate') ||
      directives.has('proxy-revalidate') ||
      directives.has('s-maxage')
    this.staleWhileRevalidateMs = toleranceMs(directives, 'stale-while-revalidate')
    this.staleIfErrorMs = toleranceMs(directives, 'stale-if-error')

    this.lastModifiedMs = onlyDate(lines['last-modified'], respondedAt)
    const explicit = explicitLifetimeMs(directives, targeted === undefined ? lines.expires : [], this)
    this.isExplicit = explicit !== undefined
    this.lifetimeMs = explicit ?? heuristicLifetimeMs(this)

    const vary = varyNames(lines.vary)
    this.isSelectable = !vary.includes('*') && hasSelecting(selecting, vary)
  }

  /** The lines of the fields for clients, each with its line end. */
  get lines(): string {
    return this.#isReady ? this.#lines : fieldLines(this.clientFields)
  }

  /** The length of the lines of all its fields in bytes. */
  get bytes(): number {
    return this.#lines.length
  }

  /** The fields for clients, without Age, which is computed for each response. */
  get clientFields(): Fields {
    return this.#isReady ? this.#fields : withoutFields(this.#fields, AGE)
  }

  /** The head that it was made from. It is built on each call. */
  get head(): StoredHead {
    const { method, status, reason, minor, selecting, requestedAt, respondedAt, range, completeLength } = this
    return {
      method,
      status,
      reason,
      minor,
      fields: this.#fields,
      selecting,
      requestedAt,
      respondedAt,
      ...(range === undefined ? {} : { range }),
      ...(completeLength === undefined ? {} : { completeLength }),
    }
  }

  /** The directives of the targeted field for this cache if there is one, otherwise of Cache-Control (RFC 9213 §2.1). */
  get directives(): Directives {
    const lines = readLines(this.#fields)
    return targetedDirectives(lines) ?? parseDirectives(lines['cache-control'])
  }

  /** ETag as received, if it can be sent in If-None-Match. */
  get etagText(): string | undefined {
    return usableTag(fieldValues(this.#fields, 'etag'))
  }

  /** The parsed ETag, if it is well-formed. */
  get etag(): EntityTag | undefined {
    const text = this.etagText
    return text === undefined ? undefined : parseEntityTag(text)
  }

  /** Last-Modified as received, if it is a date. */
  get lastModifiedText(): string | undefined {
    return this.lastModifiedMs === undefined ? undefined : fieldValue(this.#fields, 'last-modified')
  }

  get #fields(): Fields {
    const fields: string[] = []
    for (const line of this.#lines.split('\r\n')) {
      const colon = line.indexOf(': ')
      if (colon !== -1) fields.push(line.slice(0, colon), line.slice(colon + 2))
    }
    return fields
  }

  /** Whether it has a validator for a conditional request (RFC 9111 §4.3.1). */
  get isValidatable(): boolean {
    return this.etagText !== undefined || this.lastModifiedText !== undefined
  }

  /**
   * The strong validator, which is the same only if two responses are identical byte for byte (RFC 9110 §8.8.1, §8.8.2.2):
   * a strong ETag, or a Last-Modified that is at least a minute before Date.
   */
  get strongValidator(): string | undefined {
    const { etag, etagText } = this
    if (etagText !== undefined) return etag?.weak === false ? etagText : undefined
    if (this.lastModifiedMs === undefined) return undefined
    return this.dateMs - this.lastModifiedMs >= STRONG_AFTER_MS ? this.lastModifiedText : undefined
  }
}

const STRONG_AFTER_MS = 60_000

/** A Vary with more names counts as `*`: each name is compared for every variant, and no origin needs so many. */
const MAX_VARY_NAMES = 32

/** The distinct names that Vary lists, sorted and in lower case; only `*` if there are too many. */
export function varyNames(lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return lines
  const names = new Set(lines.flatMap(splitList).map(name => name.toLowerCase()))
  return names.size > MAX_VARY_NAMES ? ['*'] : [...names].sort()
}

function allLines(fields: Fields): string {
  let lines = ''
  for (let i = 0; i + 1 < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`
  return lines
}

function readLines(fields: Fields): Lines {
  const lines = Object.fromEntries(READ.map(name => [name, []])) as unknown as Record<string, string[]>
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const lower = (fields[i] as string).toLowerCase()
    const value = fields[i + 1] as string
    if (READ_NAMES.has(lower)) lines[lower]?.push(value)
  }
  return lines as Lines
}

function targetedDirectives(lines: Lines): Directives | undefined {
  for (const name of TARGETS) {
    const directives = parseTargeted(lines[name])
    if (directives !== undefined) return directives
  }
  return undefined
}

/** The explicit lifetime, in the order of RFC 9111 §4.2.1; undefined if none is given. */
function explicitLifetimeMs(
  directives: Directives,
  expires: readonly string[],
  response: { readonly dateMs: number; readonly respondedAt: number },
): number | undefined {
  const seconds = directives.seconds('s-maxage') ?? directives.seconds('max-age')
  if (seconds !== undefined) return seconds === 'invalid' ? 0 : seconds * 1000
  if (expires.length === 0) return undefined
  // An invalid date, usually `0` or `-1`, means that it is already stale (§5.3).
  const until = onlyDate(expires, response.respondedAt)
  return until === undefined ? 0 : Math.max(0, until - response.dateMs)
}

function toleranceMs(directives: Directives, name: 'stale-while-revalidate' | 'stale-if-error'): number {
  const seconds = directives.seconds(name)
  return typeof seconds === 'number' ? seconds * 1000 : 0
}

/**
 * Parses a date for the calculation of a lifetime; letters may be in any case (§4.2).
 * @param now milliseconds since the epoch
 */
export function parseDate(text: string, now: number): number | undefined {
  return parseHttpDate(text.replace(LETTERS, toDateCase), now)
}

const LETTERS = /[a-z]+/gi

/** Changes the case of letters to that of the grammar of dates (RFC 9110 §5.6.7). */
function toDateCase(letters: string): string {
  const upper = letters.toUpperCase()
  return upper === 'GMT' ? upper : upper.slice(0, 1) + letters.slice(1).toLowerCase()
}

/** The date of a field with a single line; undefined if it is invalid. */
function onlyDate(lines: readonly string[], now: number): number | undefined {
  const [line] = lines
  return line === undefined || lines.length > 1 ? undefined : parseDate(line, now)
}

/** The ETag of a response, if it can be sent in If-None-Match. */
export function usableTag(lines: readonly string[]): string | undefined {
  const [line] = lines
  if (line === undefined || lines.length > 1) return undefined
  return parseEntityTag(line) !== undefined || UNQUOTED_TAG.test(line) ? line : undefined
}

/** Whether the recorded fields are those that Vary names: a 304 may have changed Vary since (RFC 9111 §4.3.4). */
function hasSelecting(selecting: StoredHead['selecting'], names: readonly string[]): boolean {
  return selecting.length === 2 * names.length && names.every((name, i) => selecting[2 * i] === name)
}
