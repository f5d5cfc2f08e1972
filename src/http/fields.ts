/**
 * Header and trailer fields (RFC 9110 §5) as a flat list of name, value, name, value, in order, with the case of the
 * names and every repeat kept. Values are one character a byte (latin1), so that bytes above 0x7f leave as they came.
 *
 * A received head is a FieldSection, which knows what the protocol acts on. What is asked for here, by name and without
 * case, is what only some requests are looked through for.
 */

/** name, value, name, value, ... */
export type Fields = readonly string[]

/** Every value of the field `name` (given in lower case), in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() === name) values.push(fields[i + 1] as string)
  }
  return values
}

/** The first value of the field `name` (given in lower case). */
export function fieldValue(fields: Fields, name: string): string | undefined {
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() === name) return fields[i + 1]
  }
  return undefined
}

/** Whether there is a field `name` (given in lower case). */
export function hasField(fields: Fields, name: string): boolean {
  return fieldValue(fields, name) !== undefined
}

/** All but the fields of these names (given in lower case). */
export function withoutFields(fields: Fields, names: ReadonlySet<string>): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (!names.has(name.toLowerCase())) kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/** The members of a comma-separated list, trimmed, empty ones dropped (RFC 9110 §5.6.1). */
export function splitList(value: string): string[] {
  return value
    .split(',')
    .map(trimOws)
    .filter(member => member !== '')
}

/** Without optional white space at both ends: SP and HTAB alone, nothing else that trim() would take (§5.6.3). */
export function trimOws(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isOws(text.charCodeAt(start))) start++
  while (end > start && isOws(text.charCodeAt(end - 1))) end--
  return start === 0 && end === text.length ? text : text.slice(start, end)
}

function isOws(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** A copy that keeps nothing else alive: text cut out of a message holds on to all of the message as long as it is kept. */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
