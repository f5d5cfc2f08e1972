/**
 * Forwards absolute-form requests to the origin that their target names, or to a parent proxy (RFC 9112 §3.2.2, RFC 9110
 * §7.6).
 *
 * The path is sent exactly as it was received. Host is made from the target, not from the client's Host field. Every
 * handler that sends requests upstream removes the fields of the client's connection and adds this hop's Via (RFC 9110
 * §7.6).
 */
import { ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { CachedTarget, CacheTerms } from '../pipeline/cache-terms.js'
import type { Authority } from '../http/authority.js'
import { endToEndFields } from '../http/connection.js'
import { FIELD, type FieldSection, fieldSet } from '../http/field-section.js'
import { withTrace } from '../http/trace-context.js'
import { upgradeProtocol } from '../http/upgrade.js'
import type { Via } from '../http/via.js'
import type { Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { relayToOneOf } from './failover.js'
import { type RelayOptions, relay } from './relay.js'
import type { Dialer } from '../upstream/dial.js'
import type { Parents } from '../upstream/parents.js'
import type { UpstreamRequest } from '../upstream/sender.js'

/** Fields that are generated from what is known of the request, so the received ones are dropped. */
const REQUEST_DROPPED = fieldSet('host', 'content-length', 'expect')

export interface OutgoingOptions {
  /** This hop's Via. */
  readonly via: Via
  /** Protocols that Upgrade may offer, in lower case. */
  readonly upgrade: readonly string[]
  /** Undefined if caching is off. */
  readonly cache: CacheTerms | undefined
}

export interface ForwardOptions extends RelayOptions, OutgoingOptions {
  readonly dialer: Pick<Dialer, 'permitConfigured'>
}

/** The destination of a request, and its fields as received, except that Max-Forwards has been decremented. */
export interface ForwardedRequest {
  readonly authority: Authority
  readonly path: string
  readonly fields: FieldSection
  /** False if the rule that allowed the request is about methods, as an upgraded connection has none. */
  readonly upgradable: boolean
}

/**
 * @param upstream the vetted addresses of the origin, or the parents through which it is reached
 * @throws ProxyError 508 if the request has passed through this proxy before; the reason of the exchange's signal if
 *   that is aborted
 */
export function forward(
  admitted: AdmittedExchange,
  request: ForwardedRequest,
  upstream: Permit | Parents,
  options: ForwardOptions,
): Promise<Outcome> {
  const { exchange } = admitted
  const { authority, path, fields, upgradable } = request
  const isForServer = exchange.facts.method === 'OPTIONS' && isServerWide(exchange.head.target)
  const destination: Destination = {
    path: isForServer ? '*' : path,
    host: authority.text,
    fields,
    upgradable,
    cached:
      options.cache === undefined ? undefined : { scheme: 'http', authority, path, fields, reachedBy: '' },
  }
  const outgoing = outgoingRequest(admitted, destination, options)
  if (!('take' in upstream)) return relay('forward', admitted, outgoing, upstream, options)
  return relayToOneOf('forward', exchange, upstream, async (parent, hasOtherHops) => {
    const { sender, url } = parent
    const permit = await options.dialer.permitConfigured(parent, exchange)
    const sent = { ...outgoing, cached: outgoing.cached && { ...outgoing.cached, hasOtherHops } }
    const outcome = await relay('forward', admitted, sent, permit, {
      ...options,
      sender,
      parent: url,
    })
    return { ...outcome, parent: url }
  })
}

/**
 * OPTIONS for a target that ends with its authority applies to the server as a whole; the origin must receive `*` then
 * (RFC 9112 §3.2.4).
 * @param target the request target as received, in absolute-form
 */
function isServerWide(target: string): boolean {
  return !/[/?]/.test(target.slice(target.indexOf('://') + 3))
}

export interface Destination {
  /** Origin-form, or `*`. */
  readonly path: string
  /** The value of the Host field. */
  readonly host: string
  /** The fields as received, except that Max-Forwards has been decremented. */
  readonly fields: FieldSection
  /** Whether an Upgrade may be offered at all. */
  readonly upgradable: boolean
  /** The target as the cache sees it; undefined if caching is off. */
  readonly cached: CachedTarget | undefined
}

/**
 * Makes the request for the upstream from the client's request.
 * @throws ProxyError 508 if the request has passed through this proxy before
 */
export function outgoingRequest(
  { exchange, trace, partition }: AdmittedExchange,
  { path, host, fields, upgradable, cached }: Destination,
  { via, upgrade, cache }: OutgoingOptions,
): UpstreamRequest {
  const { head, facts, content } = exchange
  if (fields.has(FIELD.via)) checkLoop(fields, via)
  const endToEnd = endToEndFields(fields, REQUEST_DROPPED)
  endToEnd.push('Via', via.members[head.minor])
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
    cached:
      cached === undefined || partition === undefined
        ? undefined
        : cache?.request(exchange, cached, partition),
  }
}

/**
 * Detects a forwarding loop by Via (RFC 9110 §7.6.3).
 * @param via this hop's Via
 * @throws ProxyError 508 if the request has passed through this proxy before
 */
export function checkLoop(fields: FieldSection, via: Via): void {
  if (!via.isIn(fields)) return
  throw new ProxyError('proxy_loop_detected', 'forwarding loop', {
    reason: 'loop',
    detail: 'The Via field already names this proxy, so the request is in a forwarding loop.',
  })
}
