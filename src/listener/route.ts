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
import type { RequestTarget } from '../http/request-target.js'
import { checkMethod, chooseRoute, noOrigin, type OriginRoute, serveOrigin } from '../origin/origin.js'
import type { PassthroughOptions } from '../origin/passthrough.js'
import type { DecisionEvent, ExchangeKind, ExchangeObserver, Subject } from '../observe/exchange-observer.js'
import type { Outcome } from '../outcome.js'
import type { Policy, Decision as Verdict } from '../policy/decision.js'
import type { Grant, Permit } from '../policy/permit.js'
import { connectFailure, type TunnelOptions, tunnel } from '../tunnel/tunnel.js'
import type { Dialer } from '../upstream/dial.js'
import type { ConnectionExchange } from './connection-exchange.js'
import { explainHint } from './explain-hint.js'

export interface HopOptions extends MethodsInUse {
  /** Fields that the echo of TRACE leaves out beside those it always does, in lower case. */
  readonly traceExclude: ReadonlySet<string>
}

export interface RouteOptions {
  readonly clients: () => Clients
  readonly policy: () => Policy
  readonly configHash: () => string
  readonly dialer: Dialer
  readonly hop: HopOptions
  readonly forward: ForwardOptions
  readonly tunnel: TunnelOptions
  readonly origins: { readonly routes: readonly OriginRoute[]; readonly options: PassthroughOptions }
  readonly observer: ExchangeObserver
  readonly date: () => string
  readonly now: () => number
}

/** Serves one exchange to its end. Never rejects. */
export async function serveExchange(exchange: ConnectionExchange, options: RouteOptions): Promise<void> {
  const started = options.now()
  const found = options.clients().identify({
    address: exchange.clientAddress,
    fields: exchange.head.fields,
    certificate: exchange.clientCertificate,
  })
  const client = found instanceof Promise ? await found : found
  const decision = new Decision(exchange, client instanceof ProxyError ? undefined : client, options)
  let outcome: Outcome
  try {
    outcome = await route(exchange, client, decision, options)
  } catch (error) {
    outcome = exchange.signal.aborted ? goneOutcome() : refusal(toProxyError(error))
  }
  if (exchange.failure !== undefined) {
    const status = exchange.responded ? outcome.status : exchange.failure.status
    outcome = { ...outcome, status, closeReason: 'failed', error: exchange.failure }
  }
  if (outcome.error !== undefined) {
    decision.deny(outcome.error)
    exchange.refuse(
      outcome.error,
      explainHint(outcome.error, decision.subject, options.configHash() !== NO_FILE),
    )
  } else decision.abandon()
  decision.close(outcome, options.now() - started)
}

/** Tells the decision of an exchange once, whichever way it falls, and its end. */
class Decision {
  readonly subject: Subject
  readonly #options: RouteOptions
  #verdict: Verdict | undefined
  #route: string | undefined
  #made = false
  #decision: DecisionEvent['decision'] = 'allow'

  constructor(exchange: ConnectionExchange, client: Client | undefined, options: RouteOptions) {
    const { target, method } = exchange.facts
    const authority = 'authority' in target ? target.authority : undefined
    this.#options = options
    this.subject = {
      id: exchange.id,
      client: client?.name,
      clientAddress: exchange.clientAddress,
      kind: KINDS[target.form],
      method,
      host: authority?.host.name ?? exchange.facts.host?.host.name,
      port: authority?.port ?? exchange.facts.host?.port,
      path: 'path' in target ? target.path : undefined,
    }
  }

  /** What policy says to the host, known before the addresses are. */
  byName(verdict: Verdict): void {
    this.#verdict = verdict
  }

  /** Where no rule is asked: the key of what answers. */
  byRoute(key: string): void {
    this.#route = key
  }

  allow(dnsMs?: number): void {
    this.#pass(undefined, dnsMs)
  }

  /** An error before the decision was made: a refusal of ours, or an upstream that failed while it was allowed. */
  deny(error: ProxyError): void {
    if (error.side === 'upstream') this.#pass(error.reason)
    else this.#tell({ decision: 'deny', rule: this.#rule, reason: error.reason })
  }

  /** The client left before the decision was made; what was known of the request by then was allowed. */
  abandon(): void {
    this.#pass('client_gone')
  }

  /** After the decision was made. */
  close(outcome: Outcome, durationMs: number): void {
    this.#options.observer.close(this.subject, outcome, durationMs, this.#decision)
  }

  /** @param reason why it went no further; the close event tells that too, so an observed denial tells its own */
  #pass(reason?: string, dnsMs?: number): void {
    const rule = this.#rule
    const denial = this.#verdict?.kind === 'allow' ? this.#verdict.wouldDeny : undefined
    if (denial === undefined) this.#tell({ decision: 'allow', rule, reason, dnsMs })
    else {
      this.#tell({
        decision: 'would_deny',
        rule,
        reason: denial.reason,
        wouldDeny: denial.message,
        dnsMs,
      })
    }
  }

  get #rule(): string | undefined {
    return this.#verdict?.rule ?? this.#route
  }

  #tell(event: DecisionEvent): void {
    if (this.#made) return
    this.#made = true
    this.#decision = event.decision
    this.#options.observer.decision(this.subject, event, this.#options.configHash())
  }
}

const KINDS = {
  authority: 'connect',
  absolute: 'forward',
  origin: 'origin',
  asterisk: 'server',
} as const satisfies Record<RequestTarget['form'], ExchangeKind>

async function route(
  exchange: ConnectionExchange,
  client: Client | ProxyError,
  decision: Decision,
  options: RouteOptions,
): Promise<Outcome> {
  const { facts, head } = exchange
  const { method, target } = facts
  if (client instanceof ProxyError) {
    // Logged as what it is even when the client, which may be guessing, did not wait for it.
    decision.deny(client)
    throw client
  }
  // While its password was being checked.
  if (exchange.signal.aborted) return goneOutcome()
  switch (target.form) {
    case 'asterisk':
      // However many hops are left: no next one is named.
      decideMaxForwards(method, head.fields)
      decision.allow()
      return answerHere(exchange, serverMethods(options.hop), options)
    case 'origin':
      return await answerOrigin(exchange, target.path, decision, options)
    case 'authority': {
      const permitted = permitTunnel(exchange, target.authority, client.rules, decision, options)
      return await tunnel(exchange, await permitted, options.tunnel)
    }
    case 'absolute': {
      const { authority } = target
      if (method === 'TRACE' && !options.hop.trace) throw traceDisabled(resourceMethods(options.hop))
      const grant = admit(exchange, authority, client.rules, decision, options)
      const hops = decideMaxForwards(method, head.fields)
      if (hops.kind === 'final') {
        decision.allow()
        return answerHere(exchange, passingMethods(authority, client.rules, options), options)
      }
      const request = { ...target, fields: hops.kind === 'forward' ? hops.fields : head.fields }
      const vetted = await vet(exchange, grant, decision, options)
      return await forward(exchange, request, vetted, grant.upgradable, options.forward)
    }
  }
}

/** By the operator's own routes, which clients and limits stand before, and no rule. */
async function answerOrigin(
  exchange: ConnectionExchange,
  path: string,
  decision: Decision,
  { origins, hop, date }: RouteOptions,
): Promise<Outcome> {
  const { facts, head } = exchange
  const { method } = facts
  const route = chooseRoute(origins.routes, exchange, path)
  if (route !== undefined) decision.byRoute(route.key)
  if (method === 'TRACE' && !hop.trace) throw traceDisabled(route?.methods ?? resourceMethods(hop))
  if (route !== undefined) checkMethod(route, method)
  const hops = decideMaxForwards(method, head.fields)
  if (route === undefined && method !== 'TRACE') throw noOrigin(origins.routes.length > 0)
  decision.allow()
  // An upstream is a next hop. A store is none, and answers OPTIONS by itself whatever number of hops is left.
  const endsHere = route?.kind === 'forward' ? hops.kind === 'final' : method === 'TRACE'
  if (route === undefined || endsHere) return answerHere(exchange, route?.methods ?? [], { hop, date })
  const request = { path, fields: hops.kind === 'forward' ? hops.fields : head.fields }
  const client = { address: exchange.clientAddress, encrypted: exchange.encrypted }
  return await serveOrigin(exchange, request, client, route, origins.options)
}

/** The leave to open a tunnel; a failure has a status that a CONNECT may end with. */
async function permitTunnel(
  exchange: ConnectionExchange,
  authority: Authority,
  rules: Client['rules'],
  decision: Decision,
  options: RouteOptions,
): Promise<Permit> {
  try {
    return await vet(exchange, admit(exchange, authority, rules, decision, options), decision, options)
  } catch (error) {
    throw connectFailure(toProxyError(error))
  }
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

async function vet(
  exchange: ConnectionExchange,
  grant: Grant,
  decision: Decision,
  options: RouteOptions,
): Promise<Permit> {
  const { permit, dnsMs } = await options.dialer.permit(grant, exchange)
  decision.allow(dnsMs)
  return permit
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

function refusal(error: ProxyError): Outcome {
  const closeReason = error.side === 'upstream' ? 'failed' : 'refused'
  return { handler: 'refusal', status: error.status, closeReason, bytesUp: 0, bytesDown: 0, error }
}

function goneOutcome(): Outcome {
  return { handler: 'refusal', status: 0, closeReason: 'client_gone', bytesUp: 0, bytesDown: 0 }
}
