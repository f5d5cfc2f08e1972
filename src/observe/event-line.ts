/**
 * Log events as JSON lines, made by hand: two of them for every exchange cost a third of all processor time when a
 * general serializer makes them. The layout is the logger's own, so that both kinds of line read alike.
 */

/** Fields of an event, in order; undefined ones are left out. */
export type EventFields = Readonly<Record<string, string | number | undefined>>

/** Text that stands in JSON as it is. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

/** @param beginning the line so far, from `{` on, with at least one field and no comma behind it */
export function eventLine(beginning: string, fields: EventFields): string {
  return `${eventFields(beginning, fields)}}\n`
}

/** The line so far with further fields, still open. */
export function eventFields(beginning: string, fields: EventFields): string {
  let line = beginning
  for (const key in fields) {
    const value = fields[key]
    if (value === undefined) continue
    line += typeof value === 'number' ? `,"${key}":${value}` : `,"${key}":${quote(value)}`
  }
  return line
}

/** JSON text of a string: ASCII without controls, whatever the string holds. */
function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
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
