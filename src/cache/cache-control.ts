/**
 * Cache directives (RFC 9111 §5.2, §5.3, §5.4): what Cache-Control says, of a request or of a response.
 *
 * Directives are read as leniently as the section asks: in any case, with an argument as a token or as a quoted
 * string, over several lines. What cannot be read counts as the stricter of what it may have meant: an argument that
 * is no number of seconds is kept as an invalid one, which makes a response stale, and is not taken for an absent one.
 */
import { splitList, trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'

/** The argument of one directive: its text, none, or one that is malformed. */
export type DirectiveArgument = string | undefined | typeof MALFORMED
export const MALFORMED: unique symbol = Symbol('malformed')

/** A number of seconds that stands for every larger one (RFC 9111 §1.2.2). */
export const MAX_DELTA_SECONDS = 2 ** 31

const DIGITS = /^\d+$/
/** What a response would be another one without: it is withheld as a whole where one of them may not be used. */
const INDISPENSABLE: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'cdn-cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'etag',
  'expires',
  'last-modified',
  'vary',
])

/** The directives that are acted upon, of requests and of responses; of others nothing is kept. */
const KNOWN = [
  'immutable',
  'max-age',
  'max-stale',
  'min-fresh',
  'must-revalidate',
  'must-understand',
  'no-cache',
  'no-store',
  'only-if-cached',
  'private',
  'proxy-revalidate',
  'public',
  's-maxage',
  'stale-if-error',
  'stale-while-revalidate',
] as const
export type DirectiveName = (typeof KNOWN)[number]
const KNOWN_NAMES: ReadonlySet<string> = new Set(KNOWN)

/** All directives of one name: what their arguments come to, however many there are. */
interface Combined {
  readonly seconds: number | 'invalid'
  readonly isBare: boolean
  /** A list of field names, or `all`; undefined where the directive names no fields. */
  readonly fields: { readonly list: string } | 'all' | undefined
}

export class Directives {
  static readonly NONE: Directives = new Directives([])
  /** An entry of a store keeps it as long as it lives: it is bounded by the names, whatever was received. */
  readonly #combined = new Map<DirectiveName, Combined>()

  /** @param directives in lower case, each with its argument */
  constructor(directives: readonly (readonly [name: string, argument: DirectiveArgument])[]) {
    const known = new Map<DirectiveName, DirectiveArgument[]>()
    for (const [name, argument] of directives) {
      if (!isKnown(name)) continue
      const others = known.get(name)
      if (others === undefined) known.set(name, [argument])
      else others.push(argument)
    }
    for (const [name, all] of known) {
      const fields = name === 'private' || name === 'no-cache' ? fieldsOf(all) : undefined
      this.#combined.set(name, { seconds: secondsOf(all), isBare: all.includes(undefined), fields })
    }
  }

  /** Whether there is one of that name, whatever its argument. */
  has(name: DirectiveName): boolean {
    return this.#combined.has(name)
  }

  /** Whether there is one of that name without an argument. */
  hasWithoutArgument(name: DirectiveName): boolean {
    return this.#combined.get(name)?.isBare ?? false
  }

  /**
   * Its argument in seconds, at most 2^31; the smallest of several, as the others may be meant for somebody else.
   * @returns undefined when there is no such directive; `invalid` when an argument of it is no number of seconds
   * @see RFC 9111 §1.2.2, §4.2.1
   */
  seconds(name: DirectiveName): number | undefined | 'invalid' {
    return this.#combined.get(name)?.seconds
  }

  /**
   * The fields that a qualified `private` or `no-cache` names, in lower case; `all` when one has no argument, or one
   * that is no list of names or names what cannot be left out: the stricter reading (RFC 9111 §5.2.2.4, §5.2.2.7).
   * @returns undefined when there is no such directive
   */
  fieldNames(name: 'private' | 'no-cache'): readonly string[] | 'all' | undefined {
    const fields = this.#combined.get(name)?.fields
    return typeof fields === 'object' ? splitList(fields.list) : fields
  }
}

function isKnown(name: string): name is DirectiveName {
  return KNOWN_NAMES.has(name)
}

function secondsOf(all: readonly DirectiveArgument[]): number | 'invalid' {
  let smallest = MAX_DELTA_SECONDS
  for (const argument of all) {
    if (typeof argument !== 'string' || !DIGITS.test(argument)) return 'invalid'
    smallest = Math.min(smallest, Number(argument))
  }
  return smallest
}

/** One text rather than its names: thousands of short ones take twenty times their bytes. */
function fieldsOf(all: readonly DirectiveArgument[]): Combined['fields'] {
  const texts: string[] = []
  for (const argument of all) {
    const text = typeof argument === 'string' ? argument.toLowerCase() : ''
    const listed = splitList(text)
    if (listed.length === 0 || !listed.every(isToken)) return 'all'
    if (listed.some(field => INDISPENSABLE.has(field))) return 'all'
    texts.push(text)
  }
  return { list: texts.join(',') }
}

/** @param values those of all its lines, in order */
export function parseDirectives(values: readonly string[]): Directives {
  if (values.length === 0) return Directives.NONE
  const directives: [string, DirectiveArgument][] = []
  for (const value of values) readLine(value, directives)
  return new Directives(directives)
}

/** Adds the directives of one line. */
function readLine(line: string, directives: [string, DirectiveArgument][]): void {
  let at = 0
  let isTrusted = true
  while (at < line.length) {
    const end = endOfName(line, at)
    const written = line.slice(at, end)
    const name = trimOws(written).toLowerCase()
    const { argument, next, isClosed } = line[end] === '=' ? readArgument(line, end + 1) : noArgument(end)
    // What is behind a quote that is not closed where it should be is quoted or not: it counts, but it allows nothing.
    isTrusted &&= isClosed
    // White space before the `=` makes it something else than a directive with an argument (RFC 9111 §5.2).
    const isSpaced = line[end] === '=' && /[ \t]$/.test(written)
    if (name !== '') directives.push([name, isTrusted && !isSpaced ? argument : MALFORMED])
    // Past the comma.
    at = next + 1
  }
}

function endOfName(line: string, start: number): number {
  let end = start
  while (end < line.length && line[end] !== ',' && line[end] !== '=') end++
  return end
}

interface ReadArgument {
  readonly argument: DirectiveArgument
  /** Where the comma behind it is, or the end of the line. */
  readonly next: number
  readonly isClosed: boolean
}

function noArgument(next: number): ReadArgument {
  return { argument: undefined, next, isClosed: true }
}

function readArgument(line: string, start: number): ReadArgument {
  return line[start] === '"' ? readQuoted(line, start) : readToken(line, start)
}

function readToken(line: string, start: number): ReadArgument {
  const next = commaAfter(line, start)
  const text = line.slice(start, next)
  const isSpaced = text.startsWith(' ') || text.startsWith('\t')
  const token = trimOws(text)
  return { argument: isSpaced || !isToken(token) ? MALFORMED : token, next, isClosed: true }
}

function readQuoted(line: string, start: number): ReadArgument {
  let text = ''
  let at = start + 1
  while (at < line.length && line[at] !== '"') {
    if (line[at] === '\\') at++
    text += line[at] ?? ''
    at++
  }
  const next = commaAfter(line, at + 1)
  if (at < line.length && trimOws(line.slice(at + 1, next)) === '')
    return { argument: text, next, isClosed: true }
  return { argument: MALFORMED, next: commaAfter(line, start), isClosed: false }
}

function commaAfter(line: string, start: number): number {
  const comma = line.indexOf(',', start)
  return comma === -1 ? line.length : comma
}
