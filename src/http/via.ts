/**
 * Via (RFC 9110 §7.6.3): every hop adds itself, in both directions, and a request that already carries our own
 * pseudonym has come round in a circle.
 */
import { FIELD, type FieldSection } from './field-section.js'

/** This hop, as Via names it. */
export class Via {
  /** The member that it adds to a message, by the minor version in which that was received. */
  readonly members: readonly [http10: string, http11: string]
  readonly #pseudonym: string

  constructor(pseudonym: string) {
    this.#pseudonym = pseudonym
    this.members = [`1.0 ${pseudonym}`, `1.1 ${pseudonym}`]
  }

  /** Whether a member of Via names this hop as the host that received the message. */
  isIn(fields: FieldSection): boolean {
    return fields.membersAsReceived(FIELD.via).some(member => member.split(/[ \t]+/)[1] === this.#pseudonym)
  }
}
