/**
 * The path of a request target, as far as it decides which route a request takes (RFC 3986 §3.3, §6.2.2).
 *
 * Nothing here changes what is sent on. A path is compared in a form that equal spellings share, and one that its
 * reader might resolve to somewhere else than where its bytes point is found, so that it can be refused.
 */

const ESCAPE = /%([0-9A-Fa-f]{2})/g
const UNRESERVED = /^[A-Za-z0-9._~-]$/
/**
 * `.` or `..` between separators. Origins are known to take an encoded slash and a backslash for separators, and to
 * cut what follows a semicolon off a segment, before they resolve dots.
 */
const DOT_SEGMENT = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?=[/\\;]|%2f|%5c|%3b|$)/i

/** The path of an origin-form target, without its query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?')
  return query === -1 ? target : target.slice(0, query)
}

/**
 * Escapes of letters, digits and `-._~` decoded, which name the same as the characters themselves (§6.2.2.2), and
 * the digits of all others in capitals (§6.2.2.1).
 */
export function comparablePath(path: string): string {
  if (!path.includes('%')) return path
  return path.replace(ESCAPE, (written: string, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16))
    return UNRESERVED.test(character) ? character : written.toUpperCase()
  })
}

/** Whether a path has a segment that means another one: `.` or `..`, in whatever spelling (RFC 3986 §5.2.4). */
export function hasDotSegment(path: string): boolean {
  return DOT_SEGMENT.test(path)
}

/**
 * Whether a path lies at or below a prefix, which ends at the end of a segment: `/v1` holds `/v1` and `/v1/x`, not
 * `/v10`; `/v1/` holds what is below it alone.
 */
export function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false
  return prefix.endsWith('/') || path.length === prefix.length || path[prefix.length] === '/'
}
