/**
 * Forwarding of absolute-form requests to the origin their target names (RFC 9112 §3.2.2, RFC 9110 §7.6).
 *
 * The path leaves as the bytes it came in, Host is made from the target and not from what the client's Host said.
 */
import type { Exchange } from '../exchange.js'
import type { Authority } from '../http/authority.js'
import type { Fields } from '../http/fields.js'
import type { Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { type OutgoingOptions, outgoingRequest } from '../relay/outgoing.js'
import { type RelayOptions, relay } from '../relay/relay.js'

export type ForwardOptions = RelayOptions & OutgoingOptions

/**
 * @param request where it goes, and the fields as they came but for the hops that Max-Forwards has left
 * @param upgradable false when the rule that allowed the request looks into methods: what follows an Upgrade has none
 * @throws ProxyError 508 when the request has been here before
 */
export function forward(
  exchange: Exchange,
  request: { readonly authority: Authority; readonly path: string; readonly fields: Fields },
  permit: Permit,
  upgradable: boolean,
  options: ForwardOptions,
): Promise<Outcome> {
  const { head, facts } = exchange
  const path = asksServer(facts.method, head.target) ? '*' : request.path
  const destination = { path, host: request.authority.text, fields: request.fields, upgradable }
  return relay('forward', exchange, outgoingRequest(exchange, destination, options), permit, options)
}

/**
 * OPTIONS with a target that ends at its authority asks about the server as a whole, and only `*` says that to the
 * origin (RFC 9112 §3.2.4).
 * @param target the request target as received, in absolute-form
 */
function asksServer(method: string, target: string): boolean {
  return method === 'OPTIONS' && !/[/?]/.test(target.slice(target.indexOf('://') + 3))
}
