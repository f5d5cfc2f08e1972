/**
 * Parses the directives of Cache-Control in requests and responses (RFC 9111 §5.2, §5.3, §5.4).
 *
 * Parsing is as lenient as the section requires: directives in any case, arguments as tokens or quoted strings, several
 * field lines. A malformed directive gets the stricter of its possible meanings: an argument that is not a number of
 * seconds counts as invalid, which makes a response stale, and not as absent.
 */
import { splitList, trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'

/** The argument of a directive: its text, undefined if there is none, or MALFORMED. */
export type DirectiveArgument = string | undefined | typeof MALFORMED
const MALFORMED: unique symbol = Symbol('malformed')

/** The maximum number of seconds, which represents all larger ones (RFC 9111 §1.2.2). */
export const MAX_DELTA_SECONDS = 2 ** 31

const DIGITS = /^\d+$/
/** Fields that a response cannot be used without: if a directive withholds one, it withholds the whole response. */
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

/** The directives of requests and responses that have an effect; all others are dropped. */
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
type DirectiveName = (typeof KNOWN)[number]
const KNOWN_NAMES: ReadonlySet<string> = new Set(KNOWN)

/** The combined arguments of all directives with the same name. */
interface Combined {
  readonly seconds: number | 'invalid'
  readonly isBare: boolean
  /** A list of field names, or `all`; undefined for a directive that cannot name fields. */
  readonly fields: { readonly list: string } | 'all' | undefined
}

export class Directives {
  static readonly NONE: Directives = new Directives([])
  /** A cache entry holds this for its whole life, so its size is bounded by the known names, not by what was received. */
  readonly #combined = new Map<DirectiveName, Combined>()

  /** @param directives names in lower case, each with its argument */
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

  /** Whether there is a directive with this name and any argument or none. */
  has(name: DirectiveName): boolean {
    return this.#combined.has(name)
  }

  /** Whether there is a directive with this name and no argument. */
  hasWithoutArgument(name: DirectiveName): boolean {
    return this.#combined.get(name)?.isBare ?? false
  }

  /**
   * The argument in seconds, at most 2^31; if there are several, the smallest.
   * @returns undefined if there is no such directive; `invalid` if an argument is not a number of seconds
   * @see RFC 9111 §1.2.2, §4.2.1
   */
  seconds(name: DirectiveName): number | undefined | 'invalid' {
    return this.#combined.get(name)?.seconds
  }

  /**
   * The fields that a qualified `private` or `no-cache` names, in lower case (RFC 9111 §5.2.2.4, §5.2.2.7). `all`, the
   * stricter reading, if a directive has no argument, if that is not a list of names, or if it names an indispensable
   * field.
   * @returns undefined if there is no such directive
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

/** Keeps the names as one text: thousands of short strings would take twenty times their bytes. */
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

/** @param values the values of all field lines, in order */
export function parseDirectives(values: readonly string[]): Directives {
  if (values.length === 0) return Directives.NONE
  const directives: [string, DirectiveArgument][] = []
  for (const value of values) readLine(value, directives)
  return new Directives(directives)
}

/** Adds the directives of one field line. */
function readLine(line: string, directives: [string, DirectiveArgument][]): void {
  let at = 0
  let isTrusted = true
  while (at < line.length) {
    const end = endOfName(line, at)
    const written = line.slice(at, end)
    const name = trimOws(written).toLowerCase()
    const { argument, next, isClosed } = line[end] === '=' ? readArgument(line, end + 1) : noArgument(end)
    // After a quote that is not closed properly, the rest may be quoted or not. It counts, but with malformed arguments.
    isTrusted &&= isClosed
    // A directive with an argument has no white space before the `=` (RFC 9111 §5.2).
    const isSpaced = line[end] === '=' && /[ \t]$/.test(written)
    if (name !== '') directives.push([name, isTrusted && !isSpaced ? argument : MALFORMED])
    // Skips the comma.
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
  /** The position of the comma after it, or of the end of the line. */
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
