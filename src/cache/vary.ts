/**
 * Selects among stored responses by the request fields that their Vary names (RFC 9111 §4, §4.1).
 *
 * Fields are normalised before they are compared: lines are combined and white space around commas is removed. In fields
 * for content negotiation, the case, the order and the spelling of weights are normalised, too. Values that an origin
 * might treat differently are never made equal.
 */
import { createHash } from 'node:crypto'
import type { FieldSection } from '../http/field-section.js'
import { fieldValues, trimOws } from '../http/fields.js'
import { type StoredResponse, varyNames } from './freshness.js'
import type { StoredHead } from './stored-response.js'

/** Fields whose members have weights, and whose order does not matter (RFC 9110 §12.4.2, §12.5). */
const WEIGHTED: ReadonlySet<string> = new Set([
  'accept',
  'accept-charset',
  'accept-encoding',
  'accept-language',
])
/** Fields whose values are stored as digests only, as others than their senders can read the store. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])
/** One member: the value, its parameters, and finally its weight (RFC 9110 §12.4.2). */
const MEMBER =
  /^([^;,"\s]+)((?:[ \t]*;[ \t]*[^;,"=\s]+=[^;,"\s]*)*?)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/
/** A weight that is invalid, or not the last parameter. */
const MISPLACED_WEIGHT = /;[ \t]*q=/i
const PARAMETER = /[ \t]*;[ \t]*([^;=]+)=([^;]*)/g

/**
 * The normalised request fields that select a response, as they are stored with it.
 * @param vary the values of all Vary lines of the response; a response with `*` never matches, whatever is recorded
 */
export function selectingFields(fields: FieldSection, vary: readonly string[]): StoredHead['selecting'] {
  return varyNames(vary).flatMap(name => [name, normalised(name, fields)])
}

/** Whether a request selects a stored response: the fields that Vary names equal those of the original request. */
export function matchesVary(stored: StoredResponse, fields: FieldSection): boolean {
  if (!stored.isSelectable) return false
  const { selecting } = stored
  for (let i = 0; i + 1 < selecting.length; i += 2) {
    if (normalised(selecting[i] as string, fields) !== selecting[i + 1]) return false
  }
  return true
}

/**
 * Selects the most recent of the responses that match (RFC 9111 §4).
 * @param candidates all responses that are stored for the key of the request
 */
export function selectResponse(
  candidates: readonly StoredResponse[],
  fields: FieldSection,
): StoredResponse | 'vary-miss' {
  return mostRecent(candidates.filter(candidate => matchesVary(candidate, fields)))
}

/** Selects the most recent response. Complete ones take precedence over parts, even if those can be completed. */
function mostRecent(responses: readonly StoredResponse[]): StoredResponse | 'vary-miss' {
  let best: StoredResponse | undefined
  for (const response of responses) if (best === undefined || isBetter(response, best)) best = response
  return best ?? 'vary-miss'
}

function isBetter(a: StoredResponse, b: StoredResponse): boolean {
  const isComplete = a.range === undefined
  if (isComplete !== (b.range === undefined)) return isComplete
  if (a.dateMs !== b.dateMs) return a.dateMs > b.dateMs
  return a.respondedAt > b.respondedAt
}

/** @returns null if the request does not have the field, which is different from an empty value */
function normalised(name: string, fields: FieldSection): string | null {
  const values = fieldValues(fields.list, name)
  if (values.length === 0) return null
  if (SECRET.has(name)) return createHash('sha256').update(values.join(), 'latin1').digest('base64url')
  const text = values.map(trimOws).join(',')
  // A comma in a quoted string is not a separator.
  if (text.includes('"')) return text
  const members = text.split(',').map(trimOws)
  return (WEIGHTED.has(name) ? weighted(members) : undefined) ?? members.join(',')
}

/** @returns undefined if a member cannot be parsed */
function weighted(members: readonly string[]): string | undefined {
  const canonical = new Set<string>()
  for (const member of members) {
    if (member === '') continue
    const [, subject, parameters = '', q = '1'] = MEMBER.exec(member) ?? []
    if (subject === undefined || MISPLACED_WEIGHT.test(parameters)) return undefined
    const kept = parameters.replace(
      PARAMETER,
      (_, key: string, value: string) => `;${key.toLowerCase()}=${value}`,
    )
    canonical.add(`${subject.toLowerCase()}${kept}${Number(q) === 1 ? '' : `;q=${Number(q)}`}`)
  }
  return [...canonical].sort().join(',')
}
