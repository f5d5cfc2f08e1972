/**
 * Targeted cache control (RFC 9213): a field that speaks to one kind of cache, and takes the place of Cache-Control and
 * Expires there.
 *
 * It is a structured field, so that it is read strictly: one that does not parse is ignored as a whole, and a member of
 * another type than its directive has is ignored by itself. Surrogate-Control is none of them: it speaks to caches that
 * the origin itself has put in front of it and that have announced themselves to it, which an egress proxy is not.
 */
import { parseDictionary, Token } from 'structured-headers'
import { type DirectiveArgument, Directives } from './cache-control.js'

/** The target list (RFC 9213 §2.2): names in lower case, the most specific first. */
export const TARGETS = ['cdn-cache-control'] as const

const SECONDS: ReadonlySet<string> = new Set([
  'max-age',
  's-maxage',
  'stale-while-revalidate',
  'stale-if-error',
])
const QUALIFIED: ReadonlySet<string> = new Set(['private', 'no-cache'])

/**
 * @param lines the values of the lines of one targeted field, in order
 * @returns undefined when it is empty or malformed, so that the next one counts (RFC 9213 §2.1)
 */
export function parseTargeted(lines: readonly string[]): Directives | undefined {
  if (lines.length === 0) return undefined
  const directives: [string, DirectiveArgument][] = []
  const text = lines.join(', ')
  try {
    const members = parseDictionary(text)
    if (members.size === 0) return undefined
    for (const [name, [value]] of members) {
      if (SECONDS.has(name)) {
        if (Number.isInteger(value) && !isDecimal(text, name)) directives.push([name, String(value)])
      } else if (value === true) {
        directives.push([name, undefined])
      } else if (QUALIFIED.has(name)) {
        if (typeof value === 'string') directives.push([name, value])
        else if (value instanceof Token) directives.push([name, value.toString()])
      }
    }
  } catch {
    return undefined
  }
  return new Directives(directives)
}

/** Whether a member is written with a point: `60.0` is another type than `60`, and parsed to the same number. */
function isDecimal(text: string, name: string): boolean {
  return new RegExp(String.raw`(?:^|[ \t,])${name}=-?\d+\.`).test(text)
}
