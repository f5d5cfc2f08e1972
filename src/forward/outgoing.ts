/**
 * A client's request as the next hop is to get it, whichever handler sends it on (RFC 9110 §7.6).
 */
import { ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import { FIELD, type FieldSection } from '../http/field-section.js'
import { withTrace } from '../http/trace-context.js'
import { upgradeProtocol } from '../http/upgrade.js'
import { viaNames } from '../http/via.js'
import type { UpstreamRequest } from '../upstream/sender.js'
import { requestFields } from './message-fields.js'

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
  const endToEnd = requestFields(fields, head.minor, pseudonym)
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
