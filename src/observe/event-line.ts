/**
 * Log events as JSON lines, made by hand: two of them for every exchange cost a third of all processor time when a
 * general serializer makes them. The layout is the logger's own, so that both kinds of line read alike.
 */

/** Text that stands in JSON as it is. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

/**
 * One member of an event with the comma in front; nothing for undefined.
 * @param key a name that needs no escapes
 */
export function member(key: string, value: string | number | undefined): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return `,"${key}":${value}`
  return PLAIN.test(value) ? `,"${key}":"${value}"` : `,"${key}":${escaped(value)}`
}

/** JSON text of a string: ASCII without controls, whatever the string holds. */
function escaped(text: string): string {
  return JSON.stringify(text).replace(
    /[\x7f-\uffff]/g,
    char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** The current time as ISO 8601 text, made once a millisecond. */
export function createIsoTime(now: () => number): () => string {
  let at = Number.NaN
  let text = ''
  return () => {
    const current = now()
    if (current !== at) {
      at = current
      text = new Date(current).toISOString()
    }
    return text
  }
}
