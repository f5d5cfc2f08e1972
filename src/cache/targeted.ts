/**
 * Targeted cache control: a field for one kind of cache, which replaces Cache-Control and Expires there (RFC 9213).
 *
 * It is a structured field and so parsed strictly: a malformed field is ignored as a whole, and a member whose type does
 * not fit its directive is ignored. Surrogate-Control is not supported: it is for caches that belong to the origin and
 * announce themselves to it, which an egress proxy does not.
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
 * @returns undefined if the field is empty or malformed, so that the next one applies (RFC 9213 §2.1)
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

/** Whether a member is a decimal: `60.0` has another type than `60`, but is parsed to the same number. */
function isDecimal(text: string, name: string): boolean {
  return new RegExp(String.raw`(?:^|[ \t,])${name}=-?\d+\.`).test(text)
}
