/** A response head that was not parsed. */
import { FieldSection } from '../../../src/http/field-section.js'
import type { Fields } from '../../../src/http/fields.js'
import type { ReceivedHead } from '../../../src/http1/response-reader.js'

export function receivedHead(status: number, fields: Fields = [], contentLength?: number): ReceivedHead {
  return { status, minor: 1, reason: 'Reason', fields: FieldSection.of(fields), contentLength }
}
