/**
 * Via (RFC 9110 §7.6.3): every hop adds itself, to requests and to responses. A request that already contains this
 * proxy's own pseudonym is in a loop.
 */
import { FIELD, type FieldSection } from './field-section.js'

/** This hop, as it appears in Via. */
export class Via {
  /** The member that is added to a message, by the minor version with which the message was received. */
  readonly members: readonly [http10: string, http11: string]
  readonly #pseudonym: string

  constructor(pseudonym: string) {
    this.#pseudonym = pseudonym
    this.members = [`1.0 ${pseudonym}`, `1.1 ${pseudonym}`]
  }

  /** Whether a member of Via has this hop's pseudonym. */
  isIn(fields: FieldSection): boolean {
    return fields.membersAsReceived(FIELD.via).some(member => member.split(/[ \t]+/)[1] === this.#pseudonym)
  }
}
