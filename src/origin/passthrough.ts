/** Passing origin-form requests on to the upstreams of a route, as a gateway (RFC 9110 §3.7, §7.6). */
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
  /** What Host says when it is rewritten. */
  readonly authority: string
  readonly sender: Sender
}

/** Where a request came from, as the connection has it. */
export interface OriginClient {
  readonly address: string
  readonly encrypted: boolean
}

export interface OriginRequest {
  /** The request target, sent on byte for byte. */
  readonly path: string
  /** As they came, but for the hops that Max-Forwards has left. */
  readonly fields: FieldSection
}

export interface PassthroughRoute {
  readonly upstreams: Upstreams<Upstream>
  readonly hostHeader: 'keep' | 'rewrite'
  readonly forwarded: ForwardedStyle
  /** Tells it from other routes whose requests name the same host. */
  readonly reachedBy: string
}

export interface PassthroughOptions extends Omit<RelayOptions, 'sender'>, OutgoingOptions {
  readonly dialer: Pick<Dialer, 'permitConfigured'>
}

/** @throws ProxyError 508 when the request has been here before; whatever the client going away throws */
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

/** @param host the Host field */
function receivedFrom({ address, encrypted }: OriginClient, host: string | undefined): ReceivedFrom {
  return { address: parseSocketAddress(address)?.text, host, proto: encrypted ? 'https' : 'http' }
}
