/**
 * Selecting among stored responses (RFC 9111 §4, §4.1): by the fields of the request that their Vary names.
 *
 * Fields are compared in a form that equal meanings share: lines combined, white space around commas gone, and of the
 * fields of content negotiation the case, the order and the spelling of weights. Nothing is equal here that an origin
 * might answer differently.
 */
import { createHash } from 'node:crypto'
import type { FieldSection } from '../http/field-section.js'
import { fieldValues, trimOws } from '../http/fields.js'
import { type StoredResponse, varyNames } from './freshness.js'
import type { StoredHead } from './stored-response.js'

/** Members of these have a weight, and their order says nothing (RFC 9110 §12.4.2, §12.5). */
const WEIGHTED: ReadonlySet<string> = new Set([
  'accept',
  'accept-charset',
  'accept-encoding',
  'accept-language',
])
/** Told apart without being kept: what is stored is read by others than those who sent it. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])
/** One member: what is weighed, its parameters, and at last its weight (RFC 9110 §12.4.2). */
const MEMBER =
  /^([^;,"\s]+)((?:[ \t]*;[ \t]*[^;,"=\s]+=[^;,"\s]*)*?)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/
/** A weight that is none, or has something behind it. */
const MISPLACED_WEIGHT = /;[ \t]*q=/i
const PARAMETER = /[ \t]*;[ \t]*([^;=]+)=([^;]*)/g

/**
 * What selects the response to a request.
 * @param vary values of the lines of Vary in the response; `*` among them never matches, whatever is recorded
 */
export function selectingFields(fields: FieldSection, vary: readonly string[]): StoredHead['selecting'] {
  return varyNames(vary).flatMap(name => [name, normalised(name, fields)])
}

/** Whether a stored response is for a request: all fields that its Vary names are those of the request that it answered. */
export function matchesVary(stored: StoredResponse, fields: FieldSection): boolean {
  if (!stored.isSelectable) return false
  const { selecting } = stored
  for (let i = 0; i + 1 < selecting.length; i += 2) {
    if (normalised(selecting[i] as string, fields) !== selecting[i + 1]) return false
  }
  return true
}

/**
 * The most recent of those that match (RFC 9111 §4).
 * @param candidates all that are stored under the key of the request
 */
export function selectResponse(
  candidates: readonly StoredResponse[],
  fields: FieldSection,
): StoredResponse | 'vary-miss' {
  const [only] = candidates
  if (only !== undefined && candidates.length === 1) return matchesVary(only, fields) ? only : 'vary-miss'
  return mostRecent(candidates.filter(candidate => matchesVary(candidate, fields)))
}

/** A part only where there is no complete one: it may be joined to become one, and is not preferred to it. */
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

/** @returns null when the request does not have it, which is something else than an empty value */
function normalised(name: string, fields: FieldSection): string | null {
  const values = fieldValues(fields.list, name)
  if (values.length === 0) return null
  if (SECRET.has(name)) return createHash('sha256').update(values.join(), 'latin1').digest('base64url')
  const text = values.map(trimOws).join(',')
  // A comma in a quoted string separates nothing.
  if (text.includes('"')) return text
  const members = text.split(',').map(trimOws)
  return (WEIGHTED.has(name) ? weighted(members) : undefined) ?? members.join(',')
}

/** @returns undefined when a member cannot be read */
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
