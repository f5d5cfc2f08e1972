/**
 * Passing origin-form requests on to the upstreams of a route, as a gateway (RFC 9110 §3.7, §7.6).
 *
 * A request goes to another upstream when none of it has left because no connection came to stand, and also, if its
 * method is idempotent and none of its content was read, when the connection died without an answer (RFC 9110
 * §9.2.2). Anything else ends with the upstream that was tried.
 */
import { ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import { type ForwardedStyle, type ReceivedFrom, withForwarded } from '../http/forwarded.js'
import { methodProperties } from '../http/method.js'
import type { Host } from '../http/authority.js'
import type { Outcome } from '../outcome.js'
import { type OutgoingOptions, outgoingRequest } from '../relay/outgoing.js'
import { type RelayOptions, relay } from '../relay/relay.js'
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
  readonly fast: Sender
  readonly exact: Sender
}

export interface OriginRequest {
  /** The request target, sent on byte for byte. */
  readonly path: string
  /** As they came, but for the hops that Max-Forwards has left. */
  readonly fields: Fields
}

export interface PassthroughRoute {
  readonly upstreams: Upstreams<Upstream>
  readonly hostHeader: 'keep' | 'rewrite'
  readonly forwarded: ForwardedStyle
}

export interface PassthroughOptions extends Omit<RelayOptions, 'fast' | 'exact'>, OutgoingOptions {
  readonly dialer: Pick<Dialer, 'permitConfigured'>
}

/** @throws ProxyError 508 when the request has been here before; whatever the client going away throws */
export async function passThrough(
  exchange: Exchange,
  received: OriginRequest,
  from: ReceivedFrom,
  route: PassthroughRoute,
  options: PassthroughOptions,
): Promise<Outcome> {
  const tried = new Set<Upstream>()
  let outcome: Outcome | undefined
  for (;;) {
    const upstream =
      outcome === undefined || mayMove(exchange, outcome) ? route.upstreams.take(tried) : undefined
    if (upstream === undefined) break
    tried.add(upstream)
    try {
      outcome = await attempt(exchange, received, from, upstream, route, options)
    } finally {
      route.upstreams.done(upstream)
    }
  }
  if (outcome === undefined) throw new TypeError('an origin without upstreams')
  return outcome
}

async function attempt(
  exchange: Exchange,
  received: OriginRequest,
  from: ReceivedFrom,
  upstream: Upstream,
  { upstreams, hostHeader, forwarded }: PassthroughRoute,
  options: PassthroughOptions,
): Promise<Outcome> {
  const host = hostHeader === 'keep' ? (from.host ?? upstream.authority) : upstream.authority
  const request = outgoingRequest(exchange, { ...received, host, upgradable: true }, options)
  const fields = withForwarded(request.fields, forwarded, from)
  const { fast, exact } = upstream
  let outcome: Outcome
  try {
    const permit = await options.dialer.permitConfigured(upstream, exchange)
    outcome = await relay('origin', exchange, { ...request, fields }, permit, { ...options, fast, exact })
  } catch (error) {
    if (exchange.signal.aborted) throw error
    outcome = failed(toProxyError(error))
  }
  const { error } = outcome
  if (outcome.address !== undefined) upstreams.reached(upstream)
  else if (error?.side === 'upstream') upstreams.unreached(upstream, error)
  return error === undefined ? outcome : { ...outcome, error: explained(error, upstream) }
}

/** Whether a request that failed may be sent to another upstream. */
function mayMove({ facts, content, responded, signal }: Exchange, { error, address }: Outcome): boolean {
  if (error?.side !== 'upstream' || responded || signal.aborted || content.bytes > 0) return false
  if (address === undefined) return true
  return error.type === 'connection_terminated' && methodProperties(facts.method).idempotent
}

function failed(error: ProxyError): Outcome {
  const closeReason = error.side === 'upstream' ? 'failed' : 'refused'
  return { handler: 'origin', status: error.status, closeReason, bytesUp: 0, bytesDown: 0, error }
}

/** The same error, with the key that leads there. */
function explained(error: ProxyError, { source, url }: Upstream): ProxyError {
  return new ProxyError(error.type, error.message, {
    status: error.status,
    detail: `${source} leads to ${url}: ${error.detail ?? `${error.message}.`}`,
    fields: error.fields,
    close: error.close,
    reason: error.reason,
    cause: error.cause,
  })
}
