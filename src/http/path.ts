/**
 * The path of a request target, as used to select a route (RFC 3986 §3.3, §6.2.2).
 *
 * Nothing here changes what is forwarded. Paths are compared in a normalised form, and a path that its recipient might
 * resolve to another one can be detected and refused.
 */

const ESCAPE = /%([0-9A-Fa-f]{2})/g
const UNRESERVED = /^[A-Za-z0-9._~-]$/
/**
 * `.` or `..` between separators. Some origins treat an encoded slash or a backslash as a separator, and remove what
 * follows a semicolon in a segment, before they resolve dot segments.
 */
const DOT_SEGMENT = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?=[/\\;]|%2f|%5c|%3b|$)/i

/** The path of an origin-form target, without its query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?')
  return query === -1 ? target : target.slice(0, query)
}

/**
 * Normalises escapes: those of letters, digits and `-._~` are decoded, as they are equivalent to the characters
 * themselves (RFC 3986 §6.2.2.2), and the digits of all others are in upper case (§6.2.2.1).
 */
export function comparablePath(path: string): string {
  if (!path.includes('%')) return path
  return path.replace(ESCAPE, (written: string, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16))
    return UNRESERVED.test(character) ? character : written.toUpperCase()
  })
}

/** Whether a path has a dot segment, `.` or `..`, in any spelling (RFC 3986 §5.2.4). */
export function hasDotSegment(path: string): boolean {
  return DOT_SEGMENT.test(path)
}

/**
 * Whether a path equals a prefix or is below it; a prefix ends at the end of a segment. `/v1` matches `/v1` and
 * `/v1/x`, but not `/v10`; `/v1/` matches only what is below it.
 */
export function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false
  return prefix.endsWith('/') || path.length === prefix.length || path[prefix.length] === '/'
}
