/**
 * What a stored response says about its own use (RFC 9111 §4.2.1, §5.2.2): how long it is fresh, and what forbids it.
 *
 * It is read once, when a store loads an entry, so that a hit compares numbers and reads no field. A lifetime that is
 * stated but cannot be read is none: the response is stale from the start (§4.2.1).
 */
import { parseHttpDate } from '../http/date.js'
import { type EntityTag, parseEntityTag } from '../http/etag.js'
import { type Fields, fieldValues, splitList, withoutFields } from '../http/fields.js'
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
const READ_NAMES: ReadonlySet<string> = new Set(READ)

/** An entity tag without its quotes, as some origins send it; `*` would match anything. */
const UNQUOTED_TAG = /^(?!\*$)[\x21\x23-\x2b\x2d-\x7e\x80-\xff]+$/

export class StoredResponse {
  readonly head: StoredHead
  /** The fields as they go to clients, but for Age, which is another one each time. */
  readonly clientFields: Fields
  /** Those of the targeted field that is meant for this cache, or else of Cache-Control (RFC 9213 §2.1). */
  readonly directives: Directives

  /** Date, or when it was received; milliseconds since the epoch. */
  readonly dateMs: number
  /** Its age when it was received. */
  readonly initialAgeMs: number
  readonly lifetimeMs: number
  /** Whether it states its lifetime itself, if only to say that it has none. */
  readonly isExplicit: boolean

  /** No use without a validation (RFC 9111 §5.2.2.4), nor of one that may not be stored any more. */
  readonly noCache: boolean
  /** It is never used when stale, for whatever reason (§4.2.4). */
  readonly mustRevalidate: boolean
  readonly isPublic: boolean
  /** RFC 8246 §2. */
  readonly isImmutable: boolean
  /** How long it may be used when stale (RFC 5861 §3, §4); 0 without the directive. */
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly setsCookie: boolean

  /** ETag as received, where If-None-Match can carry it. */
  readonly etagText: string | undefined
  /** The same where it is well-formed. */
  readonly etag: EntityTag | undefined
  /** Last-Modified as received, where it is a date. */
  readonly lastModifiedText: string | undefined
  readonly lastModifiedMs: number | undefined

  /** False when nothing matches it: Vary has `*`, or names other fields than were recorded (RFC 9111 §4.1). */
  readonly isSelectable: boolean

  /** Never throws, whatever the fields are. */
  constructor(head: StoredHead) {
    this.head = head
    const lines = readLines(head.fields)
    // One list for both, as most responses do not come from a cache behind this one.
    this.clientFields = lines.age.length === 0 ? head.fields : withoutFields(head.fields, AGE)
    const targeted = targetedDirectives(lines)
    const directives = targeted ?? parseDirectives(lines['cache-control'])
    this.directives = directives

    const { respondedAt } = head
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

    this.etagText = usableTag(lines.etag)
    this.etag = this.etagText === undefined ? undefined : parseEntityTag(this.etagText)
    this.lastModifiedMs = onlyDate(lines['last-modified'], respondedAt)
    this.lastModifiedText = this.lastModifiedMs === undefined ? undefined : lines['last-modified'][0]

    const explicit = explicitLifetimeMs(directives, targeted === undefined ? lines.expires : [], this)
    this.isExplicit = explicit !== undefined
    this.lifetimeMs = explicit ?? this.#heuristicLifetimeMs()

    const vary = varyNames(lines.vary)
    this.isSelectable = !vary.includes('*') && hasSelecting(head, vary)
  }

  #heuristicLifetimeMs(): number {
    const { head, isPublic, setsCookie, dateMs, lastModifiedMs } = this
    return heuristicLifetimeMs({ status: head.status, isPublic, setsCookie, dateMs, lastModifiedMs })
  }

  /** The names in Vary, as `varyNames` has them: read anew, as those that are kept are in the head. */
  get vary(): readonly string[] {
    return varyNames(fieldValues(this.head.fields, 'vary'))
  }

  /** Whether a conditional request can be made of it (§4.3.1). */
  get isValidatable(): boolean {
    return this.etagText !== undefined || this.lastModifiedText !== undefined
  }

  /**
   * What makes two responses the same, byte for byte (RFC 9110 §8.8.1, §8.8.2.2): a strong ETag, or a Last-Modified
   * that had been true for a minute when it was sent.
   */
  get strongValidator(): string | undefined {
    if (this.etagText !== undefined) return this.etag?.weak === false ? this.etagText : undefined
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
  response: { readonly dateMs: number; readonly head: StoredHead },
): number | undefined {
  const seconds = directives.seconds('s-maxage') ?? directives.seconds('max-age')
  if (seconds !== undefined) return seconds === 'invalid' ? 0 : seconds * 1000
  if (expires.length === 0) return undefined
  // Above all `0` and `-1`, which mean that it is in the past (§5.3).
  const until = onlyDate(expires, response.head.respondedAt)
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
function hasSelecting(head: StoredHead, names: readonly string[]): boolean {
  const { selecting } = head
  return selecting.length === 2 * names.length && names.every((name, i) => selecting[2 * i] === name)
}
