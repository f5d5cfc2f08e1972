/**
 * The way of one exchange: who asks, whether policy allows it, which addresses that means, and which handler answers.
 * Every exchange leaves through the same end, with its decision and its close in the log.
 */
import type { Client, Clients } from '../clients/identify.js'
import { NO_FILE } from '../config/load.js'
import { ProxyError, toProxyError } from '../errors.js'
import { type ForwardOptions, forward } from '../forward/forward.js'
import { answerOptions, echoTrace, traceDisabled } from '../hop/hop.js'
import { type MethodsInUse, resourceMethods, serverMethods } from '../http/allow.js'
import type { Authority } from '../http/authority.js'
import { decideMaxForwards } from '../http/max-forwards.js'
import type { Method } from '../http/method.js'
import { upgradeProtocol } from '../http/upgrade.js'
import type { Shares, Stay } from '../limits/shares.js'
import {
  checkMethod,
  chooseRoute,
  methodsAt,
  noOrigin,
  type OriginRoute,
  serveOrigin,
} from '../origin/origin.js'
import type { PassthroughOptions } from '../origin/passthrough.js'
import type { ObserverList } from '../observe/exchange-observer.js'
import { Outcome } from '../outcome.js'
import type { Policy } from '../policy/decision.js'
import type { Grant, Permit } from '../policy/permit.js'
import { type FarEnd, openDirectly, openThroughParent } from '../tunnel/far-end.js'
import { connectFailure, type TunnelOptions, tunnel } from '../tunnel/tunnel.js'
import type { Dialer, Resolution } from '../upstream/dial.js'
import type { Parents } from '../upstream/parents.js'
import type { ConnectionExchange } from './connection-exchange.js'
import { Decision } from './decision.js'
import { explainHint } from './explain-hint.js'
import { clientAskerOf, Visit } from './visit.js'

export interface HopOptions extends MethodsInUse {
  /** Fields that the echo of TRACE leaves out beside those it always does, in lower case. */
  readonly traceExclude: ReadonlySet<string>
}

export interface RouteOptions {
  readonly clients: () => Clients
  readonly policy: () => Policy
  readonly configHash: () => string
  readonly dialer: Dialer
  /** The parent proxies, where there are any. */
  readonly parents: Parents | undefined
  readonly hop: HopOptions
  readonly forward: ForwardOptions
  readonly tunnel: TunnelOptions
  readonly origins: { readonly routes: readonly OriginRoute[]; readonly options: PassthroughOptions }
  readonly shares: Pick<Shares, 'enter'>
  readonly observer: ObserverList
  readonly date: () => string
  readonly now: () => number
}

/** Serves one exchange to its end. Never rejects. */
export async function serveExchange(exchange: ConnectionExchange, options: RouteOptions): Promise<void> {
  const started = options.now()
  const { slot } = exchange
  if (slot.pending !== undefined) await slot.pending
  const found = slot.refusal ?? options.clients().identify(clientAskerOf(exchange))
  const client = found instanceof Promise ? await found : found
  const decision = new Decision(exchange, client instanceof ProxyError ? undefined : client, options)
  exchange.trace = options.observer.began(decision.subject, exchange, started)
  const visit = new Visit(exchange, decision, options.clients)
  let outcome: Outcome
  try {
    outcome = await route(visit, client, options)
  } catch (error) {
    const { aborted } = exchange
    outcome = aborted ? Outcome.aborted('refusal', aborted) : Outcome.of('refusal', toProxyError(error))
  }
  visit.stay.leave()
  if (outcome.error !== undefined) {
    decision.deny(outcome.error)
    exchange.refuse(
      outcome.error,
      explainHint(outcome.error, decision.subject, options.configHash() !== NO_FILE),
    )
  } else decision.abandon()
  decision.close(outcome, options.now() - started)
  exchange.reported()
}

async function route(
  visit: Visit,
  client: Client | ProxyError | undefined,
  options: RouteOptions,
): Promise<Outcome> {
  const { exchange, decision } = visit
  const { facts, head } = exchange
  const { method, target } = facts
  if (client instanceof ProxyError) {
    // Logged as what it is even when the client, which may be guessing, did not wait for it.
    decision.deny(client)
    throw client
  }
  visit.client = client
  // While its password was being checked, or waited for that.
  if (exchange.aborted !== undefined) return Outcome.aborted('refusal', exchange.aborted)
  if (client === undefined) throw exchange.signal.reason
  switch (target.form) {
    case 'asterisk':
      // However many hops are left: no next one is named.
      decideMaxForwards(method, head.fields)
      await enter(visit, false, options)
      decision.allow()
      return answerHere(exchange, serverMethods(options.hop), options)
    case 'origin':
      return await answerOrigin(visit, target.path, options)
    case 'authority':
      return await answerConnect(visit, target.authority, client, options)
    case 'absolute': {
      const { authority } = target
      if (method === 'TRACE' && !options.hop.trace) throw traceDisabled(resourceMethods(options.hop))
      const grant = admit(exchange, authority, client.rules, decision, options)
      const hops = decideMaxForwards(method, head.fields)
      const entering = enter(visit, hops.kind !== 'final' && grant.upgradable, options)
      if (entering !== undefined) await entering
      if (hops.kind === 'final') {
        decision.allow()
        return answerHere(exchange, passingMethods(authority, client.rules, options), options)
      }
      const fields = hops.kind === 'forward' ? hops.fields : head.fields
      const request = { ...target, fields, upgradable: grant.upgradable }
      const way = vet(visit, grant, options)
      return await forward(exchange, request, way instanceof Promise ? await way : way, options.forward)
    }
  }
}

/** By the operator's own routes, which clients and limits stand before, and no rule. */
async function answerOrigin(visit: Visit, path: string, options: RouteOptions): Promise<Outcome> {
  const { exchange, decision } = visit
  const { origins, hop } = options
  const { facts, head } = exchange
  const { method } = facts
  const route = chooseRoute(origins.routes, exchange, path)
  if (route !== undefined) decision.byRoute(route.key)
  if (method === 'TRACE' && !hop.trace) {
    throw traceDisabled(route === undefined ? resourceMethods(hop) : methodsAt(route, path))
  }
  if (route !== undefined) checkMethod(route, method, path)
  const hops = decideMaxForwards(method, head.fields)
  if (route === undefined && method !== 'TRACE') throw noOrigin(origins.routes.length > 0)
  // An upstream is a next hop. A store is none, and answers OPTIONS by itself whatever number of hops is left.
  const endsHere = route?.kind === 'forward' ? hops.kind === 'final' : method === 'TRACE'
  await enter(visit, route?.kind === 'forward' && !endsHere, options)
  decision.allow()
  if (route === undefined || endsHere) return answerHere(exchange, route?.methods ?? [], options)
  const request = { path, fields: hops.kind === 'forward' ? hops.fields : head.fields }
  const from = { address: exchange.clientAddress, encrypted: exchange.encrypted }
  return await serveOrigin(exchange, request, from, route, origins.options)
}

/** A tunnel; what keeps it from being opened has a status that a CONNECT may end with. */
async function answerConnect(
  visit: Visit,
  authority: Authority,
  client: Client,
  options: RouteOptions,
): Promise<Outcome> {
  const { exchange, decision } = visit
  let grant: Grant
  let way: Permit | Parents
  try {
    grant = admit(exchange, authority, client.rules, decision, options)
    const entering = enter(visit, true, options)
    if (entering !== undefined) await entering
    const vetted = vet(visit, grant, options)
    way = vetted instanceof Promise ? await vetted : vetted
  } catch (error) {
    throw connectFailure(toProxyError(error))
  }
  if ('take' in way) {
    const parents = way
    const open = (): Promise<FarEnd> => openThroughParent(grant, parents, exchange, options.tunnel)
    return await tunnel(exchange, grant, open, options.tunnel)
  }
  const permit = way
  return await tunnel(
    exchange,
    permit.grant,
    () => openDirectly(permit, exchange, options.tunnel),
    options.tunnel,
  )
}

/** The same question for every form of request: by name here, and then in `vet` by address. */
function admit(
  exchange: ConnectionExchange,
  { host, port }: Authority,
  rules: Client['rules'],
  decision: Decision,
  options: RouteOptions,
): Grant {
  const { method, target } = exchange.facts
  const form = target.form === 'authority' ? 'connect' : 'forward'
  const verdict = options.policy().admit({ form, method, host, port, rules })
  decision.byName(verdict)
  if (verdict.kind === 'allow') return verdict.grant
  throw new ProxyError('http_request_denied', verdict.message, {
    reason: verdict.reason,
    detail: verdict.detail,
  })
}

/**
 * Whether there is room for it: asked of what policy has allowed, before anything is looked up for it.
 * @param upgradable whether it is a tunnel if it asks to be one; a CONNECT always is
 * @throws ProxyError 429 or 503 when there is none
 */
function enter(
  visit: Visit,
  upgradable: boolean,
  { shares, forward: { upgrade } }: RouteOptions,
): Promise<void> | undefined {
  const { exchange } = visit
  const { head, facts } = exchange
  const found = shares.enter({
    account: () => visit.account,
    tunnel:
      facts.method === 'CONNECT' ||
      (upgradable && upgradeProtocol(head.fields, head.minor, upgrade) !== undefined),
    metered: exchange,
  })
  const begin = (stay: Stay | ProxyError): void => {
    if (stay instanceof ProxyError) throw stay
    visit.stay = stay
  }
  if (found instanceof Promise) return found.then(begin)
  begin(found)
  return undefined
}

/** @returns the addresses to connect to, or the parents of which one is to find them */
function vet(
  visit: Visit,
  grant: Grant,
  { parents, dialer }: RouteOptions,
): Permit | Parents | Promise<Permit> {
  const { decision } = visit
  if (parents?.takes(grant.host) === true) {
    dialer.checkBehindParent(grant)
    decision.allow()
    return parents
  }
  const allow = ({ permit, dnsMs }: Resolution): Permit => {
    decision.allow(dnsMs)
    return permit
  }
  const known = dialer.permitAtOnce(grant)
  return known === undefined ? dialer.permit(grant, visit).then(allow) : allow(known)
}

/** The answer to an OPTIONS or TRACE that goes no further; `allowed` are the methods that its target takes. */
function answerHere(
  exchange: ConnectionExchange,
  allowed: Iterable<Method>,
  { hop, date }: Pick<RouteOptions, 'hop' | 'date'>,
): Outcome {
  return exchange.facts.method === 'TRACE'
    ? echoTrace(exchange, date(), hop.traceExclude)
    : answerOptions(exchange, date(), allowed)
}

/** The methods with which this client may reach a resource through here. */
function passingMethods(
  { host, port }: Authority,
  rules: Client['rules'],
  { policy, hop }: RouteOptions,
): Method[] {
  return resourceMethods(hop).filter(
    method => policy().admit({ form: 'forward', method, host, port, rules }).kind === 'allow',
  )
}
