/**
 * Forwarding of absolute-form requests to the origin their target names (RFC 9112 §3.2.2, RFC 9110 §7.6), or to a parent
 * proxy that does.
 *
 * The path leaves as the bytes it came in, Host is made from the target and not from what the client's Host said. A request
 * leaves, whichever handler sends it on, without what belongs to one hop and with this hop's Via (RFC 9110 §7.6).
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

/** Written anew from what is known of the request, so the received ones are left out. */
const REQUEST_DROPPED = fieldSet('host', 'content-length', 'expect')

export interface OutgoingOptions {
  /** This hop, as it adds itself. */
  readonly via: Via
  /** Protocols that Upgrade may offer, in lower case. */
  readonly upgrade: readonly string[]
  /** Undefined where nothing is cached. */
  readonly cache: CacheTerms | undefined
}

export interface ForwardOptions extends RelayOptions, OutgoingOptions {
  readonly dialer: Pick<Dialer, 'permitConfigured'>
}

/** Where a request goes, and the fields as they came but for the hops that Max-Forwards has left. */
export interface ForwardedRequest {
  readonly authority: Authority
  readonly path: string
  readonly fields: FieldSection
  /** False when the rule that allowed the request looks into methods: what follows an Upgrade has none. */
  readonly upgradable: boolean
}

/**
 * @param way the addresses of the origin, or the parents of which one is to reach it
 * @throws ProxyError 508 when the request has been here before; whatever the client going away throws
 */
export function forward(
  admitted: AdmittedExchange,
  request: ForwardedRequest,
  way: Permit | Parents,
  options: ForwardOptions,
): Promise<Outcome> {
  const { exchange } = admitted
  const { authority, path, fields, upgradable } = request
  const asksServer = exchange.facts.method === 'OPTIONS' && isServerWide(exchange.head.target)
  const destination: Destination = {
    path: asksServer ? '*' : path,
    host: authority.text,
    fields,
    upgradable,
    cached:
      options.cache === undefined ? undefined : { scheme: 'http', authority, path, fields, reachedBy: '' },
  }
  const outgoing = outgoingRequest(admitted, destination, options)
  if (!('take' in way)) return relay('forward', admitted, outgoing, way, options)
  return relayToOneOf('forward', exchange, way, async (parent, hasOtherHops) => {
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
 * OPTIONS with a target that ends at its authority asks about the server as a whole, and only `*` says that to the
 * origin (RFC 9112 §3.2.4).
 * @param target the request target as received, in absolute-form
 */
function isServerWide(target: string): boolean {
  return !/[/?]/.test(target.slice(target.indexOf('://') + 3))
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
  /** As the cache has it; undefined where there is none. */
  readonly cached: CachedTarget | undefined
}

/** @throws ProxyError 508 when the request has been here before */
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
 * @param via this hop
 * @throws ProxyError 508 when the request has been here before
 */
export function checkLoop(fields: FieldSection, via: Via): void {
  if (!via.isIn(fields)) return
  throw new ProxyError('proxy_loop_detected', 'this request has been here before', {
    reason: 'loop',
    detail: 'Via names this proxy already: the request goes round in a circle.',
  })
}
