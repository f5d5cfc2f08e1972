/** Forwards origin-form requests to the upstreams of a route, as a gateway (RFC 9110 §3.7, §7.6). */
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { FieldSection } from '../http/field-section.js'
import { type ForwardedStyle, type ReceivedFrom, withForwarded } from '../http/forwarded.js'
import type { Host } from '../http/authority.js'
import { parseSocketAddress } from '../net/ip-address.js'
import type { Outcome } from '../outcome.js'
import { relayToOneOf } from '../forward/failover.js'
import { type OutgoingOptions, outgoingRequest } from '../forward/forward.js'
import { type RelayOptions, relay } from '../forward/relay.js'
import type { Dialer } from '../upstream/dial.js'
import type { Sender } from '../upstream/sender.js'
import type { Upstreams } from './upstreams.js'

export interface Upstream {
  /** The configuration key, `origins[0].forward`. */
  readonly source: string
  /** `scheme://host:port`. */
  readonly url: string
  readonly host: Host
  readonly port: number
  /** The value of Host if it is rewritten. */
  readonly authority: string
  readonly sender: Sender
}

/** The client of a request, according to its connection. */
export interface OriginClient {
  readonly address: string
  readonly encrypted: boolean
}

export interface OriginRequest {
  /** The request target, which is forwarded unchanged. */
  readonly path: string
  /** The fields as received, except that Max-Forwards has been decremented. */
  readonly fields: FieldSection
}

export interface PassthroughRoute {
  readonly upstreams: Upstreams<Upstream>
  readonly hostHeader: 'keep' | 'rewrite'
  readonly forwarded: ForwardedStyle
  /** Distinguishes the route, in cache keys, from others whose requests have the same Host. */
  readonly reachedBy: string
}

export interface PassthroughOptions extends Omit<RelayOptions, 'sender'>, OutgoingOptions {
  readonly dialer: Pick<Dialer, 'permitConfigured'>
}

/**
 * Forwards a request to one upstream of a route.
 * @throws ProxyError 508 if the request has passed through this proxy before; the reason of the exchange's signal if
 *   that is aborted
 */
export function passThrough(
  admitted: AdmittedExchange,
  received: OriginRequest,
  client: OriginClient,
  { upstreams, hostHeader, forwarded, reachedBy }: PassthroughRoute,
  options: PassthroughOptions,
): Promise<Outcome> {
  const { exchange } = admitted
  const named = exchange.facts.host?.text
  const kept = hostHeader === 'keep' ? named : undefined
  const { host: authority } = exchange.facts
  const scheme = client.encrypted ? 'https' : 'http'
  const cached =
    options.cache === undefined || authority === undefined
      ? undefined
      : ({ ...received, scheme, authority, reachedBy } as const)
  const destination = { ...received, host: kept ?? '', upgradable: true, cached }
  const request = outgoingRequest(admitted, destination, options)
  const fields =
    forwarded === 'none'
      ? request.fields
      : withForwarded(request.fields, forwarded, receivedFrom(client, named))
  return relayToOneOf('origin', exchange, upstreams, async (upstream, hasOtherHops) => {
    const { sender, authority } = upstream
    try {
      const permit = await options.dialer.permitConfigured(upstream, exchange)
      const cached = request.cached && { ...request.cached, hasOtherHops }
      const sent = { ...request, host: kept ?? authority, fields, cached }
      return await relay('origin', admitted, sent, permit, { ...options, sender })
    } finally {
      upstreams.done(upstream)
    }
  })
}

/** @param host the value of the Host field */
function receivedFrom({ address, encrypted }: OriginClient, host: string | undefined): ReceivedFrom {
  return { address: parseSocketAddress(address)?.text, host, proto: encrypted ? 'https' : 'http' }
}
