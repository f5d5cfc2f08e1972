/**
 * Header and trailer fields (RFC 9110 §5) as a flat list of name, value, name, value, with the order, the case of names
 * and all repetitions preserved. Values have one character for each byte (latin1), so that bytes above 0x7f are
 * forwarded unchanged.
 *
 * A received head is a FieldSection, which knows the names that the protocol uses. The functions here compare names
 * without regard to case, for fields that only some requests are searched for.
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

/** Whether the field `name` (given in lower case) is present. */
export function hasField(fields: Fields, name: string): boolean {
  return fieldValue(fields, name) !== undefined
}

/** The list without the fields of these names (given in lower case). */
export function withoutFields(fields: Fields, names: ReadonlySet<string>): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (!names.has(name.toLowerCase())) kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/** The members of a comma-separated list, trimmed, without empty members (RFC 9110 §5.6.1). */
export function splitList(value: string): string[] {
  return value
    .split(',')
    .map(trimOws)
    .filter(member => member !== '')
}

/** Removes optional white space at both ends: only SP and HTAB, unlike trim() (RFC 9110 §5.6.3). */
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
