/**
 * Messages as the next hop gets them, whichever handler sends them on: what belongs to one hop removed, this hop's Via
 * added (RFC 9110 §7.6, §6.6.1).
 */
import { ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import { endToEndFields } from '../http/connection.js'
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import type { Fields } from '../http/fields.js'
import { withTrace } from '../http/trace-context.js'
import { upgradeProtocol } from '../http/upgrade.js'
import { viaMember, viaNames } from '../http/via.js'
import type { UpstreamRequest } from '../upstream/sender.js'

/** Written anew from what is known of the message, so the received ones are left out. */
const REQUEST_DROPPED = fieldSet('host', 'content-length', 'expect')
const RESPONSE_DROPPED = fieldSet('content-length')

export interface OutgoingOptions {
  /** This hop's name in Via. */
  readonly pseudonym: string
  /** Protocols that Upgrade may offer, in lower case. */
  readonly upgrade: readonly string[]
}

export interface Destination {
  /** Origin-form, or `*`. */
  readonly path: string
  /** The Host field. */
  readonly host: string
  /** The fields as they came, but for the hops that Max-Forwards has left. */
  readonly fields: FieldSection
  /** Whether an Upgrade may be offered at all. */
  readonly upgradable: boolean
}

/** @throws ProxyError 508 when the request has been here before */
export function outgoingRequest(
  { exchange: { head, facts, content }, trace }: AdmittedExchange,
  { path, host, fields, upgradable }: Destination,
  { pseudonym, upgrade }: OutgoingOptions,
): UpstreamRequest {
  if (fields.has(FIELD.via)) checkLoop(fields, pseudonym)
  const endToEnd = endToEndFields(fields, REQUEST_DROPPED)
  endToEnd.push('Via', viaMember(head.minor, pseudonym))
  return {
    method: facts.method,
    path,
    host,
    fields: trace === undefined ? endToEnd : withTrace(endToEnd, trace),
    content: content.length === 0 ? undefined : content,
    sendsZeroLength: content.length === 0 && fields.has(FIELD['content-length']),
    expectContinue: facts.expectContinue,
    upgrade:
      upgradable && fields.has(FIELD.upgrade) ? upgradeProtocol(fields, head.minor, upgrade) : undefined,
  }
}

/**
 * @param pseudonym this hop's name in Via
 * @throws ProxyError 508 when the request has been here before
 */
export function checkLoop(fields: FieldSection, pseudonym: string): void {
  if (!viaNames(fields, pseudonym)) return
  throw new ProxyError('proxy_loop_detected', 'this request has been here before', {
    reason: 'loop',
    detail: 'Via names this proxy already: the request goes round in a circle.',
  })
}

/**
 * The fields of a response.
 * @param minor the minor version it came in
 * @param pseudonym this hop's name in Via
 * @param date makes the Date of a final response that came without one (RFC 9110 §6.6.1); absent for an interim one
 */
export function responseFields(
  fields: FieldSection,
  minor: 0 | 1,
  pseudonym: string,
  date?: () => string,
): Fields {
  const kept = endToEndFields(fields, RESPONSE_DROPPED)
  if (date !== undefined && !fields.has(FIELD.date)) kept.push('Date', date())
  kept.push('Via', viaMember(minor, pseudonym))
  return kept
}
