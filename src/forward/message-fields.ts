/**
 * The fields of a message as the next hop gets them: what belongs to one hop removed, this hop's Via added
 * (RFC 9110 §7.6.1, §7.6.3, §6.6.1).
 */
import { endToEndFields } from '../http/connection.js'
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { viaMember } from '../http/via.js'

/** Written anew from what is known of the message, so the received ones are left out. */
const REQUEST_DROPPED = fieldSet('host', 'content-length', 'expect')
const RESPONSE_DROPPED = fieldSet('content-length')

/** @param minor the minor version the request came in */
export function requestFields(fields: FieldSection, minor: 0 | 1, pseudonym: string): Fields {
  const kept = endToEndFields(fields, REQUEST_DROPPED)
  kept.push('Via', viaMember(minor, pseudonym))
  return kept
}

/**
 * @param minor the minor version the response came in
 * @param date makes the Date of a response that came without one (RFC 9110 §6.6.1)
 */
export function responseFields(
  fields: FieldSection,
  minor: 0 | 1,
  pseudonym: string,
  date: () => string,
): Fields {
  const kept = endToEndFields(fields, RESPONSE_DROPPED)
  if (!fields.has(FIELD.date)) kept.push('Date', date())
  kept.push('Via', viaMember(minor, pseudonym))
  return kept
}

/** @param minor the minor version the response came in */
export function interimFields(fields: FieldSection, minor: 0 | 1, pseudonym: string): Fields {
  const kept = endToEndFields(fields, RESPONSE_DROPPED)
  kept.push('Via', viaMember(minor, pseudonym))
  return kept
}
