/**
 * Via (RFC 9110 §7.6.3): every hop adds itself, in both directions, and a request that already carries our own
 * pseudonym has come round in a circle.
 */
import { FIELD, type FieldSection } from './field-section.js'

/** The member that this hop adds: the version it received, and its pseudonym. */
export function viaMember(minor: 0 | 1, pseudonym: string): string {
  return `1.${minor} ${pseudonym}`
}

/** Whether a Via member names `pseudonym` as the host that received the message. */
export function viaNames(fields: FieldSection, pseudonym: string): boolean {
  return fields.membersAsReceived(FIELD.via).some(member => member.split(/[ \t]+/)[1] === pseudonym)
}
