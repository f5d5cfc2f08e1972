/**
 * Forwarding of absolute-form requests to the origin their target names (RFC 9112 §3.2.2, RFC 9110 §7.6).
 *
 * The path leaves as the bytes it came in, Host is made from the target and not from what the client's Host said.
 */
import { ProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { Authority } from '../http/authority.js'
import { type Fields, fieldValues } from '../http/fields.js'
import { upgradeProtocol } from '../http/upgrade.js'
import { viaNames } from '../http/via.js'
import type { Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { requestFields } from '../relay/message-fields.js'
import { type RelayOptions, relay } from '../relay/relay.js'

export interface ForwardOptions extends RelayOptions {
  /** Protocols that Upgrade may offer, in lower case. */
  readonly upgrade: readonly string[]
}

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
  const { head, facts, content } = exchange
  if (viaNames(head.fields, options.pseudonym)) {
    throw new ProxyError('proxy_loop_detected', 'this request has been here before', {
      reason: 'loop',
      detail: 'Via names this proxy already: the request goes round in a circle.',
    })
  }
  const upgrade = upgradable ? upgradeProtocol(head.fields, head.minor, options.upgrade) : undefined
  return relay(
    'forward',
    exchange,
    {
      method: facts.method,
      path: asksServer(facts.method, head.target) ? '*' : request.path,
      host: request.authority.text,
      fields: requestFields(request.fields, head.minor, options.pseudonym),
      content: content.length === 0 ? undefined : content,
      sendsZeroLength: fieldValues(head.fields, 'content-length').length > 0 && content.length === 0,
      expectContinue: facts.expectContinue,
      upgrade,
    },
    permit,
    options,
  )
}

/**
 * OPTIONS with a target that ends at its authority asks about the server as a whole, and only `*` says that to the
 * origin (RFC 9112 §3.2.4).
 * @param target the request target as received, in absolute-form
 */
function asksServer(method: string, target: string): boolean {
  return method === 'OPTIONS' && !/[/?]/.test(target.slice(target.indexOf('://') + 3))
}
