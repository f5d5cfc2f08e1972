/**
 * What a stored response says about its own use (RFC 9111 §4.2.1, §5.2.2): how long it is fresh, and what forbids it.
 *
 * It is read once, when a store loads an entry, so that a hit compares numbers and reads no field. A lifetime that is
 * stated but cannot be read is none: the response is stale from the start (§4.2.1).
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

/** The lines of the fields that caching is decided by, by name. */
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

/** An entity tag without its quotes, as some origins send it; `*` would match anything. */
const UNQUOTED_TAG = /^(?!\*$)[\x21\x23-\x2b\x2d-\x7e\x80-\xff]+$/

/**
 * It keeps its fields as one text, ready to be sent, and the numbers that a hit compares: a store of a million responses
 * is a million of these, and a hit of any of them reads memory that no processor has in its caches.
 */
export class StoredResponse {
  // What every hit reads comes first: it is in two lines of a processor's cache then, and not in four.
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  readonly selecting: StoredHead['selecting']
  /** False when nothing matches it: Vary has `*`, or names other fields than were recorded (RFC 9111 §4.1). */
  readonly isSelectable: boolean
  /** No use without a validation (RFC 9111 §5.2.2.4), nor of one that may not be stored any more. */
  readonly noCache: boolean
  /** When it came; milliseconds since the epoch. */
  readonly respondedAt: number
  /** Its age when it was received. */
  readonly initialAgeMs: number
  readonly lifetimeMs: number
  readonly range: ByteRange | undefined
  /** Whether its fields go to clients as they are: none is Age, which is another one each time, or a writer's own. */
  readonly #isReady: boolean
  /** The lines of all fields. */
  readonly #lines: string

  readonly method: string
  readonly completeLength: number | undefined
  /** Milliseconds since the epoch. */
  readonly requestedAt: number
  /** Date, or when it was received; milliseconds since the epoch. */
  readonly dateMs: number
  /** Of a Last-Modified that is a date. */
  readonly lastModifiedMs: number | undefined
  /** Whether it states its lifetime itself, if only to say that it has none. */
  readonly isExplicit: boolean
  /** It is never used when stale, for whatever reason (§4.2.4). */
  readonly mustRevalidate: boolean
  readonly isPublic: boolean
  /** RFC 8246 §2. */
  readonly isImmutable: boolean
  /** How long it may be used when stale (RFC 5861 §3, §4); 0 without the directive. */
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly setsCookie: boolean

  /**
   * Never throws, whatever the fields are. Nothing of the head is kept alive: its texts are often parts of a larger one.
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

  /** The lines of the fields that go to clients, each with its end. */
  get lines(): string {
    return this.#isReady ? this.#lines : fieldLines(this.clientFields)
  }

  /** Of the lines of all fields. */
  get bytes(): number {
    return this.#lines.length
  }

  /** The fields that go to clients. */
  get clientFields(): Fields {
    return this.#isReady ? this.#fields : withoutFields(this.#fields, AGE)
  }

  /** What it was made of. */
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

  /** Those of the targeted field that is meant for this cache, or else of Cache-Control (RFC 9213 §2.1). */
  get directives(): Directives {
    const lines = readLines(this.#fields)
    return targetedDirectives(lines) ?? parseDirectives(lines['cache-control'])
  }

  /** ETag as received, where If-None-Match can carry it. */
  get etagText(): string | undefined {
    return usableTag(fieldValues(this.#fields, 'etag'))
  }

  /** The same where it is well-formed. */
  get etag(): EntityTag | undefined {
    const text = this.etagText
    return text === undefined ? undefined : parseEntityTag(text)
  }

  /** Last-Modified as received, where it is a date. */
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

  /** The names in Vary, as `varyNames` has them: read anew, as those that are kept are in `selecting`. */
  get vary(): readonly string[] {
    return varyNames(fieldValues(this.#fields, 'vary'))
  }

  /** Whether a conditional request can be made of it (RFC 9111 §4.3.1). */
  get isValidatable(): boolean {
    return this.etagText !== undefined || this.lastModifiedText !== undefined
  }

  /**
   * What makes two responses the same, byte for byte (RFC 9110 §8.8.1, §8.8.2.2): a strong ETag, or a Last-Modified
   * that had been true for a minute when it was sent.
   */
  get strongValidator(): string | undefined {
    const { etag, etagText } = this
    if (etagText !== undefined) return etag?.weak === false ? etagText : undefined
    if (this.lastModifiedMs === undefined) return undefined
    return this.dateMs - this.lastModifiedMs >= STRONG_AFTER_MS ? this.lastModifiedText : undefined
  }
}

const STRONG_AFTER_MS = 60_000

/** A Vary of more names is `*`: each is compared for every variant, and no origin chooses by so many. */
const MAX_VARY_NAMES = 32

/** The names that Vary lists, in lower case, sorted, each once; `*` alone when they are too many. */
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

/** RFC 9111 §4.2.1, in its order; undefined when the response states nothing. */
function explicitLifetimeMs(
  directives: Directives,
  expires: readonly string[],
  response: { readonly dateMs: number; readonly respondedAt: number },
): number | undefined {
  const seconds = directives.seconds('s-maxage') ?? directives.seconds('max-age')
  if (seconds !== undefined) return seconds === 'invalid' ? 0 : seconds * 1000
  if (expires.length === 0) return undefined
  // Above all `0` and `-1`, which mean that it is in the past (§5.3).
  const until = onlyDate(expires, response.respondedAt)
  return until === undefined ? 0 : Math.max(0, until - response.dateMs)
}

function toleranceMs(directives: Directives, name: 'stale-while-revalidate' | 'stale-if-error'): number {
  const seconds = directives.seconds(name)
  return typeof seconds === 'number' ? seconds * 1000 : 0
}

/**
 * A date that a lifetime is calculated with: in whatever case (§4.2).
 * @param now milliseconds since the epoch
 */
export function parseDate(text: string, now: number): number | undefined {
  return parseHttpDate(text.replace(LETTERS, inItsCase), now)
}

const LETTERS = /[a-z]+/gi

/** As the grammar of a date has it (RFC 9110 §5.6.7). */
function inItsCase(letters: string): string {
  const upper = letters.toUpperCase()
  return upper === 'GMT' ? upper : upper.slice(0, 1) + letters.slice(1).toLowerCase()
}

/** The date of a field that is there once and valid. */
function onlyDate(lines: readonly string[], now: number): number | undefined {
  const [line] = lines
  return line === undefined || lines.length > 1 ? undefined : parseDate(line, now)
}

function usableTag(lines: readonly string[]): string | undefined {
  const [line] = lines
  if (line === undefined || lines.length > 1) return undefined
  return parseEntityTag(line) !== undefined || UNQUOTED_TAG.test(line) ? line : undefined
}

/** Whether the fields recorded are those that Vary names now: a 304 may have changed it (RFC 9111 §4.3.4). */
function hasSelecting(selecting: StoredHead['selecting'], names: readonly string[]): boolean {
  return selecting.length === 2 * names.length && names.every((name, i) => selecting[2 * i] === name)
}
