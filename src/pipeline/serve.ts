/**
 * The pipeline of an exchange, from top to bottom: the client is identified, the policy admits the request, the limits
 * reserve capacity, names are resolved to addresses, a handler answers, and the outcome is reported.
 *
 * Nothing is awaited that is known at once: a request of a client identified by address, without limits and for a name
 * in the DNS cache, reaches its handler in the same turn in which its head was read.
 */
import type { Client, Clients } from '../clients/identify.js'
import { ProxyError, toProxyError } from '../errors.js'
import type { AdmittedExchange, ReceivedExchange } from './admitted-exchange.js'
import { type ForwardOptions, forward } from '../forward/forward.js'
import { type MethodsInUse, resourceMethods, serverMethods } from '../http/allow.js'
import type { Authority } from '../http/authority.js'
import { FIELD, type FieldSection } from '../http/field-section.js'
import { decideMaxForwards, UNLIMITED } from '../http/max-forwards.js'
import type { Method } from '../http/method.js'
import { upgradeProtocol } from '../http/upgrade.js'
import type { Reservation, Shares } from '../limits/shares.js'
import type { ObserverList } from './exchange-observer.js'
import {
  checkMethod,
  chooseRoute,
  methodsAt,
  noOrigin,
  type OriginRoute,
  serveOrigin,
} from '../origin/origin.js'
import type { PassthroughOptions } from '../origin/passthrough.js'
import { Outcome } from '../outcome.js'
import type { Policy, PolicyInForce } from '../policy/decision.js'
import type { Grant, Permit } from '../policy/permit.js'
import { connectFailure, type TunnelOptions, tunnel } from '../tunnel/tunnel.js'
import type { Dialer, Resolution } from '../upstream/dial.js'
import type { Parents } from '../upstream/parents.js'
import { explainHint } from './error-page.js'
import { answerOptions, echoTrace, traceDisabled } from './hop.js'
import { Report } from './report.js'

export interface HopOptions extends MethodsInUse {
  /** Names of fields that the response to TRACE omits in addition to the fixed ones, in lower case. */
  readonly traceExclude: ReadonlySet<string>
}

/** The options of all handlers. */
export type HandlerOptions = ForwardOptions & PassthroughOptions & TunnelOptions

/** The parts of a configuration in use that change. */
export interface Serving extends PolicyInForce {
  policy: Policy
  /** The number of exchanges that have not ended. */
  exchanges: number
  /** Called at the end of each exchange while someone waits for the last one. */
  ended: (() => void) | undefined
}

export interface Pipeline {
  readonly clients: Clients
  readonly serving: Serving
  readonly configHash: string
  /** False when the proxy runs on the built-in defaults. */
  readonly hasConfigFile: boolean
  readonly dialer: Dialer
  /** The parent proxies; undefined without any. */
  readonly parents: Parents | undefined
  readonly hop: HopOptions
  readonly routes: readonly OriginRoute[]
  readonly handling: HandlerOptions
  readonly shares: Pick<Shares, 'enter'>
  readonly observers: ObserverList
  readonly date: () => string
  readonly now: () => number
}

/** What answers the request, as decided by the policy and the routes. */
type Target =
  /** This hop itself; `allowed` returns the methods that the requested resource supports. */
  | { readonly kind: 'hop'; readonly allowed: () => Iterable<Method> }
  | {
      readonly kind: 'origin'
      readonly route: OriginRoute
      readonly path: string
      readonly fields: FieldSection
    }
  | {
      readonly kind: 'forward'
      readonly grant: Grant
      readonly authority: Authority
      readonly path: string
      readonly fields: FieldSection
    }
  | { readonly kind: 'tunnel'; readonly grant: Grant }

/** @returns a function that serves an exchange to its end and never rejects */
export function createServe(pipeline: Pipeline): (exchange: ReceivedExchange) => Promise<void> {
  return async function serve(exchange) {
    const { clients, serving, shares, now } = pipeline
    serving.exchanges += 1
    const started = now()
    const { slot } = exchange
    if (slot.pending !== undefined) await slot.pending
    const identified = slot.refusal ?? clients.identify(exchange)
    const client = identified instanceof Promise ? await identified : identified
    const report = new Report(exchange, client, started, pipeline)
    let reservation: Reservation | undefined
    let outcome: Outcome
    try {
      if (client instanceof ProxyError) {
        // Logged as a refusal even if the client, which may be guessing passwords, did not wait for it.
        report.deny(client)
        throw client
      }
      // The client left while its password was checked or queued for the check.
      if (client === undefined || exchange.aborted !== undefined) throw exchange.signal.reason
      const target = chooseTarget(exchange, client, report, pipeline)
      const tunnel =
        target.kind === 'tunnel' ||
        (exchange.head.fields.has(FIELD.upgrade) && isUpgrade(exchange, target, pipeline.handling.upgrade))
      const { limits } = client
      if (tunnel || limits.countsRequests) {
        const account = clients.accountOf(client, exchange)
        const asked = shares.enter({ account, limits, tunnel, metered: exchange })
        const reserved = asked instanceof Promise ? await asked : asked
        if (reserved instanceof ProxyError) throw reserved
        reservation = reserved
      }
      const found = 'grant' in target ? resolve(exchange, client, target.grant, pipeline) : undefined
      const resolution = found instanceof Promise ? await found : found
      report.allow(resolution?.dnsMs)
      if (pipeline.handling.cache !== undefined && target.kind !== 'tunnel') {
        const grant = 'grant' in target ? target.grant : undefined
        report.partition = pipeline.handling.cache.partition(client, exchange, grant)
      }
      outcome = await handOver(report, target, resolution?.permit, pipeline)
    } catch (error) {
      const { aborted } = exchange
      outcome = aborted
        ? Outcome.aborted('refusal', aborted)
        : Outcome.of('refusal', answerTo(toProxyError(error), exchange, client))
    }
    reservation?.release()
    if (outcome.error !== undefined) {
      exchange.refuse(outcome.error, explainHint(outcome.error, report.subject, pipeline.hasConfigFile))
    }
    report.close(outcome, now() - started)
    exchange.reported()
    serving.exchanges -= 1
    serving.ended?.()
  }
}

/**
 * Asks the policy the same question for every form of request that names a host. The operator's own routes are not
 * subject to rules, only to client entries and limits.
 * @throws ProxyError 400, 403, 404, 405
 */
function chooseTarget(
  exchange: ReceivedExchange,
  client: Client,
  report: Report,
  pipeline: Pipeline,
): Target {
  const { facts, head } = exchange
  const { method, target } = facts
  const { hop } = pipeline
  switch (target.form) {
    case 'asterisk':
      // Checked but not counted down: there is no next hop.
      decideMaxForwards(method, head.fields)
      return { kind: 'hop', allowed: () => serverMethods(hop) }
    case 'origin':
      return chooseOrigin(exchange, target.path, report, pipeline)
    case 'authority':
      return { kind: 'tunnel', grant: admit(exchange, target.authority, client, report, pipeline) }
    case 'absolute': {
      const { authority, path } = target
      if (method === 'TRACE' && !hop.trace) throw traceDisabled(resourceMethods(hop))
      const grant = admit(exchange, authority, client, report, pipeline)
      const { fields } = head
      const hops = fields.has(FIELD['max-forwards']) ? decideMaxForwards(method, fields) : UNLIMITED
      if (hops.kind === 'final')
        return { kind: 'hop', allowed: () => passingMethods(authority, client, pipeline) }
      return {
        kind: 'forward',
        grant,
        authority,
        path,
        fields: hops.kind === 'forward' ? hops.fields : fields,
      }
    }
  }
}

function chooseOrigin(
  exchange: ReceivedExchange,
  path: string,
  report: Report,
  { routes, hop }: Pipeline,
): Target {
  const { facts, head } = exchange
  const { method } = facts
  const route = chooseRoute(routes, exchange, path)
  if (route !== undefined) report.rule = route.key
  if (method === 'TRACE' && !hop.trace) {
    throw traceDisabled(route === undefined ? resourceMethods(hop) : methodsAt(route, path))
  }
  if (route !== undefined) checkMethod(route, method, path)
  const { fields } = head
  const hops = fields.has(FIELD['max-forwards']) ? decideMaxForwards(method, fields) : UNLIMITED
  if (route === undefined && method !== 'TRACE') throw noOrigin(routes.length > 0)
  // An upstream is a next hop. A store is not one, and answers OPTIONS itself for any value of Max-Forwards.
  const endsHere = route?.kind === 'forward' ? hops.kind === 'final' : method === 'TRACE'
  if (route === undefined || endsHere) return { kind: 'hop', allowed: () => route?.methods ?? [] }
  return { kind: 'origin', route, path, fields: hops.kind === 'forward' ? hops.fields : fields }
}

/** The decision by name; `resolve` makes the one by address. */
function admit(
  exchange: ReceivedExchange,
  { host, port }: Authority,
  { rules, mode }: Client,
  report: Report,
  { serving }: Pipeline,
): Grant {
  const { method, target } = exchange.facts
  const form = target.form === 'authority' ? 'connect' : 'forward'
  const decision = serving.policy.admit({ form, method, host, port, rules, mode })
  report.rule = decision.rule
  if (decision.kind === 'allow') {
    report.wouldDeny = decision.wouldDeny
    return decision.grant
  }
  const { message, reason, detail, status } = decision
  const type = status === 508 ? 'proxy_loop_detected' : 'http_request_denied'
  throw new ProxyError(type, message, { reason, detail })
}

/** Whether a request becomes a tunnel if its upgrade is accepted. */
function isUpgrade({ head }: ReceivedExchange, target: Target, upgrade: readonly string[]): boolean {
  const isUpgradable =
    target.kind === 'forward'
      ? target.grant.upgradable
      : target.kind === 'origin' && target.route.kind === 'forward'
  return isUpgradable && upgradeProtocol(head.fields, head.minor, upgrade) !== undefined
}

/** @returns the addresses to connect to; undefined when a parent resolves the name */
function resolve(
  exchange: ReceivedExchange,
  client: Client,
  grant: Grant,
  { parents, dialer, clients }: Pipeline,
): Resolution | undefined | Promise<Resolution> {
  if (parents?.takes(grant.host) === true) {
    dialer.checkBehindParent(grant)
    return undefined
  }
  const known = dialer.permitIfKnown(grant)
  if (known !== undefined) return known
  const account = clients.accountOf(client, exchange)
  return dialer.permit(grant, { signal: exchange.signal, account, share: client.limits.lookups })
}

/** @param permit for a target with a grant; undefined when a parent proxy connects to it */
function handOver(
  admitted: AdmittedExchange,
  target: Target,
  permit: Permit | undefined,
  pipeline: Pipeline,
): Outcome | Promise<Outcome> {
  const { exchange } = admitted
  const { hop, date, handling } = pipeline
  switch (target.kind) {
    case 'hop':
      return exchange.facts.method === 'TRACE'
        ? echoTrace(exchange, date(), hop.traceExclude)
        : answerOptions(exchange, date(), target.allowed())
    case 'origin': {
      const { clientAddress: address, encrypted } = exchange
      return serveOrigin(admitted, target, { address, encrypted }, target.route, handling)
    }
    case 'forward': {
      const { authority, path, fields, grant } = target
      const request = { authority, path, fields, upgradable: grant.upgradable }
      return forward(admitted, request, permit ?? parentsOf(pipeline), handling)
    }
    case 'tunnel':
      return tunnel(admitted, permit?.grant ?? target.grant, permit ?? parentsOf(pipeline), handling)
  }
}

/** @throws TypeError when there are none */
function parentsOf({ parents }: Pipeline): Parents {
  if (parents === undefined) throw new TypeError('neither a permit nor a parent')
  return parents
}

/** The methods that this client may use for a resource of this authority. */
function passingMethods(
  { host, port }: Authority,
  { rules, mode }: Client,
  { serving, hop }: Pipeline,
): Method[] {
  return resourceMethods(hop).filter(
    method => serving.policy.admit({ form: 'forward', method, host, port, rules, mode }).kind === 'allow',
  )
}

/** An error that prevents a tunnel is given a status allowed for CONNECT, unless it is about the client itself. */
function answerTo(
  error: ProxyError,
  { facts }: ReceivedExchange,
  client: Client | ProxyError | undefined,
): ProxyError {
  return facts.method === 'CONNECT' && error !== client ? connectFailure(error) : error
}
