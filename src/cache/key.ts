/**
 * The cache key (RFC 9111 §2): the target URI, and what else decides whether one client may see what another has fetched.
 *
 * Only what is in the key, or named by Vary, may change what is stored. Some origins look at fields that say which host or
 * path they were asked for and that no Vary ever names: their values are part of the key, so that whoever sends them gets
 * an entry of their own and nobody else does.
 */
import { FIELD, type FieldSection } from '../http/field-section.js'

/** The values of the fields that claim another target than the request has; '' for a request without any. */
export function claimedTarget(fields: FieldSection): string {
  if (!fields.has(FIELD['x-forwarded-host'])) return ''
  const { list, ids } = fields
  const claims = ids.flatMap((id, i) =>
    id === FIELD['x-forwarded-host']
      ? [(list[2 * i] as string).toLowerCase(), list[2 * i + 1] as string]
      : [],
  )
  return JSON.stringify(claims)
}
