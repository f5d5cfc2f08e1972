/**
 * Forwarding of absolute-form requests to the origin their target names (RFC 9112 §3.2.2, RFC 9110 §7.6), or to a parent
 * proxy that does.
 *
 * The path leaves as the bytes it came in, Host is made from the target and not from what the client's Host said.
 */
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Authority } from '../http/authority.js'
import type { FieldSection } from '../http/field-section.js'
import type { Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { relayToOneOf } from './failover.js'
import { type OutgoingOptions, outgoingRequest } from './outgoing.js'
import { type RelayOptions, relay } from './relay.js'
import type { Dialer } from '../upstream/dial.js'
import type { Parents } from '../upstream/parents.js'

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
  const destination = { path: asksServer ? '*' : path, host: authority.text, fields, upgradable }
  const outgoing = outgoingRequest(admitted, destination, options)
  if (!('take' in way)) return relay('forward', admitted, outgoing, way, options)
  return relayToOneOf('forward', exchange, way, async parent => {
    const { sender, url } = parent
    const permit = await options.dialer.permitConfigured(parent, exchange)
    const outcome = await relay('forward', admitted, outgoing, permit, {
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
