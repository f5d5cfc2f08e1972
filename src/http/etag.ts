/**
 * Entity tags: the grammar, the two comparison functions, and the lists in If-Match and If-None-Match
 * (RFC 9110 §8.8.3, §8.8.3.2, §13.1.1, §13.1.2).
 *
 * The opaque part may contain commas, so a list of tags cannot be split at commas. It has no escapes: a backslash is
 * an ordinary character.
 */
import { type Fields, fieldValues } from './fields.js'

/** `opaque` is the text between the quotes, one character for each byte. */
export interface EntityTag {
  readonly weak: boolean
  readonly opaque: string
}

/** The value of If-Match or If-None-Match. A list without members is valid and matches nothing. */
export type EntityTagList =
  | { readonly kind: 'any' }
  | { readonly kind: 'tags'; readonly tags: readonly EntityTag[] }
  | { readonly kind: 'malformed' }

const ENTITY_TAG = String.raw`(W/)?"([\x21\x23-\x7e\x80-\xff]*)"`
const WHOLE_TAG = new RegExp(`^${ENTITY_TAG}$`)
const MALFORMED: EntityTagList = Object.freeze({ kind: 'malformed' })

/** @returns undefined when it is not an entity tag; `w/` is not a prefix, as its case matters (RFC 9110 §8.8.3) */
export function parseEntityTag(text: string): EntityTag | undefined {
  const match = WHOLE_TAG.exec(text)
  return match === null ? undefined : tagOf(match)
}

/** @throws RangeError when the opaque part contains a character that is not allowed in an entity tag */
export function serializeEntityTag(tag: EntityTag): string {
  const text = `${tag.weak ? 'W/' : ''}"${tag.opaque}"`
  if (!WHOLE_TAG.test(text)) throw new RangeError('bad character in an entity tag')
  return text
}

/** Strong comparison: both tags are strong and equal byte for byte (RFC 9110 §8.8.3.2). */
export function isStrongMatch(a: EntityTag, b: EntityTag): boolean {
  return !a.weak && !b.weak && a.opaque === b.opaque
}

/** Weak comparison: the opaque parts are equal, whether or not a tag is weak (RFC 9110 §8.8.3.2). */
export function isWeakMatch(a: EntityTag, b: EntityTag): boolean {
  return a.opaque === b.opaque
}

/**
 * Parses `*` or a list of entity tags, from all lines of a field.
 *
 * The caller decides what a malformed list means, because that depends on the method of the request.
 * @param name the field's name in lower case
 * @returns undefined when there is no such field
 */
export function parseEntityTags(fields: Fields, name: string): EntityTagList | undefined {
  const values = fieldValues(fields, name)
  if (values.length === 0) return undefined
  // The space prevents a tag that begins on one line from ending on the next.
  const text = values.join(', ')
  return text === '*' ? { kind: 'any' } : parseTags(text)
}

function parseTags(text: string): EntityTagList {
  const entityTag = new RegExp(ENTITY_TAG, 'y')
  const tags: EntityTag[] = []
  let separated = true
  let at = 0
  while (at < text.length) {
    const char = text[at]
    if (char === ',' || char === ' ' || char === '\t') {
      separated ||= char === ','
      at++
      continue
    }
    entityTag.lastIndex = at
    const match = entityTag.exec(text)
    if (match === null || !separated) return MALFORMED
    tags.push(tagOf(match))
    separated = false
    at = entityTag.lastIndex
  }
  return { kind: 'tags', tags }
}

function tagOf(match: RegExpExecArray): EntityTag {
  return { weak: match[1] !== undefined, opaque: match[2] ?? '' }
}
