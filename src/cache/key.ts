/**
 * The cache key (RFC 9111 §2): the target URI, and what else decides whether one client may see what another has fetched.
 *
 * Only what is in the key, or named by Vary, may change what is stored. Some origins look at fields that say which host or
 * path they were asked for and that no Vary ever names: their values are part of the key, so that whoever sends them gets
 * an entry of their own and nobody else does.
 */
import type { Authority } from '../http/authority.js'
import { FIELD, type FieldSection } from '../http/field-section.js'

/**
 * The values of the fields that claim another target than the request has, and a Host that is not in lower case, as origins
 * get it that way; '' for a request without any.
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
