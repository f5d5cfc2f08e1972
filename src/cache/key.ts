/**
 * The cache key: the target URI, and what else decides whether clients may share a response (RFC 9111 §2).
 *
 * Only what is in the key, or named by Vary, may influence a stored response. Some origins use fields that claim another
 * host, but do not name them in Vary. The values of such fields are part of the key, so that a client that sends them gets
 * a separate entry and cannot influence the responses of others.
 */
import type { Authority } from '../http/authority.js'
import { FIELD, type FieldSection } from '../http/field-section.js'

/**
 * The values of the fields that claim another target than that of the request, and the Host if it is not in lower case, as
 * origins see its case; '' if there is neither.
 */
export function claimedTarget({ text }: Authority, fields: FieldSection): string {
  const spelling = text === text.toLowerCase() ? '' : ` ${text}`
  if (!fields.has(FIELD['x-forwarded-host'])) return spelling
  const { list, ids } = fields
  const claims = ids.flatMap((id, i) =>
    id === FIELD['x-forwarded-host']
      ? [(list[2 * i] as string).toLowerCase(), list[2 * i + 1] as string]
      : [],
  )
  return spelling + JSON.stringify(claims)
}
