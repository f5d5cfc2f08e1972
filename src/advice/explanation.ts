/**
 * Explains the decision on a request: all steps that the proxy would perform before it connects, in their order, with the
 * proxy's policy and resolver. The decision comes from the policy itself, so that an explanation cannot differ from what the
 * proxy does. No connection is made.
 */
import { UNIX_CLIENT } from '../clients/identify.js'
import {
  certificateMissing,
  credentialsRefused,
  unknownAddress,
  unknownUnixClient,
} from '../clients/refusals.js'
import { formatPath } from '../config/problem.js'
import type { Config } from '../config/schema.js'
import type { Resolver } from '../dns/resolve.js'
import { malformed, ProxyError } from '../errors.js'
import { resourceMethods } from '../http/allow.js'
import type { Authority } from '../http/authority.js'
import type { HeadLimits } from '../http1/byte-queue.js'
import { RequestReader } from '../http1/request-reader.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { classify } from '../pipeline/classify.js'
import { traceDisabled } from '../pipeline/hop.js'
import type { Policy } from '../policy/decision.js'
import type { Denial } from '../policy/denial.js'
import type { NoProxy } from '../policy/no-proxy.js'
import type { Grant } from '../policy/permit.js'
import type { RequestForm } from '../policy/rules.js'
import type { AddressTrace, TraceStep } from '../policy/trace.js'
import { resolveGranted } from '../upstream/granted-host.js'
import type { KnownClient, UnknownClient } from './find-client.js'

/** `would_deny`: passes because of mode observe. `invalid`: malformed. `dns_failed`: allowed by name, but not resolved. */
export type Verdict = 'allow' | 'would_deny' | 'deny' | 'invalid' | 'dns_failed'

/** The response of the proxy, or in mode observe the one it would have sent. */
export interface Refusal {
  readonly status: number
  readonly reason: string
  readonly message: string
  readonly detail?: string | undefined
}

/** The DNS response and its duration. */
export interface Lookup {
  readonly name: string
  readonly addresses: readonly string[]
  readonly ms: number
  readonly error?: ProxyError
}

export interface Explanation {
  readonly request: RequestLine
  readonly client: KnownClient | UnknownClient
  readonly verdict: Verdict
  /** The rule that allows the request, or the nearest one. */
  readonly rule?: string | undefined
  readonly refusal?: Refusal
  readonly steps: readonly TraceStep[]
  /** Undefined when no name was resolved. */
  readonly lookup?: Lookup
  readonly addresses: readonly AddressTrace[]
  /** Conditions of a request that passes. */
  readonly notes: readonly string[]
}

export interface ExplainParts {
  readonly config: Config
  readonly policy: Policy
  /** Undefined without a parent proxy. */
  readonly noProxy?: NoProxy | undefined
  /** Undefined to decide by name only: names are not resolved, and only IP literals are checked as addresses. */
  readonly resolver: Resolver | undefined
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

type Base = Pick<Explanation, 'request' | 'client' | 'steps' | 'addresses' | 'notes'>

/** Never rejects for a request that the proxy would answer with an error. */
export async function explainRequest(
  request: RequestLine,
  client: KnownClient | UnknownClient,
  parts: ExplainParts,
): Promise<Explanation> {
  const base: Base = { request, client, steps: client.steps, addresses: [], notes: [] }
  const { limits, methods, trace } = parts.config
  let authority: Authority
  try {
    authority = readRequestLine(request, limits, methods.extra)
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    return refused(base, 'invalid', error)
  }
  if (client.kind === 'unknown') return refused(base, 'deny', refusalOf(client))
  if (request.method === 'TRACE' && !trace.enabled) {
    return refused(base, 'deny', traceDisabled(resourceMethods({ trace: false, extra: methods.extra })))
  }
  return await judgeHost(base, authority, client, parts)
}

async function judgeHost(
  base: Base,
  { host, port }: Pick<Authority, 'host' | 'port'>,
  client: KnownClient,
  parts: ExplainParts,
): Promise<Explanation> {
  const { rules, mode, modePath } = client
  const { form, method } = base.request
  const { policy, resolver } = parts
  const asked = { form, method, host, port, rules, mode }
  const decision = policy.admit(asked)
  const { rule } = decision
  const isBehindParent = parts.noProxy !== undefined && parts.noProxy.entryFor(host) === undefined
  const { steps } = policy.trace(asked, { isBehindParent, modePath })
  const traced = { ...base, rule, steps: [...base.steps, ...steps] }
  if (decision.kind === 'deny') return { ...traced, verdict: 'deny', refusal: answerTo(decision, form) }
  const { grant, wouldDeny } = decision
  let granted = grant
  const passed = (judged: Base & Pick<Explanation, 'rule' | 'lookup'>): Explanation => {
    const notes = [...notesOn(base.request, granted, parts), ...limitNotes(client)]
    if (wouldDeny === undefined) return { ...judged, notes, verdict: 'allow' }
    return { ...judged, notes, verdict: 'would_deny', refusal: answerTo(wouldDeny, form) }
  }
  if (isBehindParent) {
    const denial = policy.vetBehindParent(grant)
    return denial === undefined ? passed(traced) : refusedBehindParent(traced, denial)
  }
  let lookup: Lookup | undefined
  if (host.kind === 'name') {
    if (resolver === undefined) return passed(traced)
    const found = await lookUp(grant, resolver, parts)
    if ('kind' in found) return refusedAs(traced, found)
    lookup = found
    if (lookup.error !== undefined) {
      return { ...traced, verdict: 'dns_failed', lookup, refusal: answerOf(lookup.error) }
    }
    granted = found.grant
  }
  const addresses = lookup?.addresses ?? [host.name]
  const vetted = {
    ...traced,
    ...(lookup === undefined ? {} : { lookup }),
    addresses: policy.traceAddresses(granted, addresses),
  }
  const permit = policy.vet(granted, addresses)
  if ('kind' in permit) {
    return { ...vetted, verdict: 'deny', rule: permit.rule, refusal: answerTo(permit, form) }
  }
  return passed(vetted)
}

function refusedBehindParent(traced: Base, denial: Denial): Explanation {
  const { rule, reason } = denial
  const path = reason === 'parent' && rule !== undefined ? ['rules', rule, 'addresses_only'] : undefined
  const step: TraceStep = { verdict: 'deny', text: `${denial.message}. ${denial.detail}` }
  const steps = [...traced.steps, path === undefined ? step : { ...step, path }]
  return { ...traced, verdict: 'deny', rule, steps, refusal: answerTo(denial, traced.request.form) }
}

/** The name completed with a search domain is denied. */
function refusedAs(traced: Base, denial: Denial): Explanation {
  const step: TraceStep = {
    verdict: 'deny',
    path: ['deny', denial.hostsFile === undefined ? 'hosts' : 'hosts_file'],
    text: `${denial.message}. ${denial.detail}`,
  }
  const refusal = answerTo(denial, traced.request.form)
  return { ...traced, verdict: 'deny', rule: denial.rule, steps: [...traced.steps, step], refusal }
}

async function lookUp(
  grant: Grant,
  resolver: Resolver,
  { policy, now }: ExplainParts,
): Promise<(Lookup & { readonly grant: Grant }) | Denial> {
  const started = now()
  try {
    const found = await resolveGranted(grant, policy, resolver, new AbortController())
    return 'kind' in found ? found : { ...found, ms: now() - started }
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    return { name: grant.host.name, grant, addresses: [], ms: now() - started, error }
  }
}

/** The conditions of an allowed request. */
function notesOn({ form, websocket }: RequestLine, grant: Grant, parts: ExplainParts): string[] {
  const { forward } = parts.config
  const notes = parentNotes(grant, parts)
  if (form === 'connect' && grant.verifyServerName) {
    const { kind, name } = grant.host
    const never = kind === 'name' ? '' : ', which no client can name: an address is not a server name'
    notes.push(`the tunnel must begin with TLS for ${name}${never}`)
  }
  if (websocket && !forward.upgrade.includes('websocket')) {
    notes.push('forward.upgrade does not hold websocket: the Upgrade is left out of the request')
  }
  if (websocket && !grant.upgradable) {
    notes.push('every rule that allows it has methods: the Upgrade is left out of the request')
  }
  return notes
}

/** The limits that the entry of the client sets itself. */
function limitNotes({ path, ownLimits }: KnownClient): string[] {
  if (ownLimits.length === 0) return []
  return [`${formatPath([...path, 'limits'])} sets ${ownLimits.join(', ')}`]
}

/** The route of the request, if there is a parent proxy. */
function parentNotes({ host }: Grant, { config, noProxy }: ExplainParts): string[] {
  if (config.parent === undefined || noProxy === undefined) return []
  const direct = noProxy.entryFor(host)
  if (direct !== undefined) {
    return [`it goes directly: parent.no_proxy holds "${serializeHostPattern(direct)}"`]
  }
  const urls = config.parent.urls.map(({ text }) => text)
  const unknown = host.kind === 'name' ? `, which resolves ${host.name} by itself` : ''
  const which = urls.length === 1 ? '' : 'the first that can be reached of '
  return [`it goes through ${which}parent.url (${urls.join(', ')})${unknown}`]
}

/** The refusal of a client that matches no entry. */
function refusalOf({ address, lacks }: UnknownClient): ProxyError {
  switch (lacks) {
    case 'credentials':
      return credentialsRefused('missing')
    case 'certificate':
      return certificateMissing(address, false)
    case 'entry':
      return address === UNIX_CLIENT ? unknownUnixClient(address) : unknownAddress(address)
  }
}

/** Adds the refusal as a step when no step of the policy contains it. */
function refused(base: Base, verdict: 'deny' | 'invalid', error: ProxyError): Explanation {
  const refusal = answerOf(error)
  const { message, detail } = refusal
  const text = detail === undefined ? message : `${message}. ${detail}`
  return { ...base, verdict, refusal, steps: [...base.steps, { verdict: 'deny', text }] }
}

function answerOf({ status, reason, message, detail }: ProxyError): Refusal {
  return { status, reason, message, detail }
}

/** A refused CONNECT gets 403, also where a forwarded request gets 508. */
function answerTo({ status, reason, message, detail }: Denial, form: RequestForm): Refusal {
  return { status: form === 'connect' ? 403 : status, reason, message, detail }
}

export interface RequestLine {
  readonly form: RequestForm
  readonly method: string
  /** The request target as it would be sent. */
  readonly target: string
  /** Whether the request asks for an upgrade to WebSocket. */
  readonly websocket: boolean
}

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//
const HTTPS_PORT = 443

/**
 * The request that a client with this proxy would send for a URL: CONNECT for `https://` and for a bare `host:port`,
 * the URL itself for `http://`.
 *
 * The request line is parsed by the same reader as all others, so malformed requests get the same errors. A client sends the
 * name and password of a URL in Authorization, not in the request line (RFC 9110 §4.2.4). So they are left out here, and out
 * of every message.
 * @param url `https://`, `http://`, `wss://` or `ws://` and what follows, or `host:port`
 * @param method of a forwarded request; GET when left out
 * @throws RangeError with one clause when the text is not a request
 */
export function requestLineOf(url: string, method?: string): RequestLine {
  if (/[\r\n]/.test(`${url}${method}`)) throw new RangeError('a request line has no line breaks in it')
  const [prefix = '', written = ''] = SCHEME.exec(url) ?? []
  const scheme = written.toLowerCase()
  const rest = hostAndPath(url.slice(prefix.length))
  if (method === 'CONNECT' && (scheme === 'http' || scheme === 'ws')) {
    throw new RangeError('a CONNECT has no URL; write host:port')
  }
  switch (scheme) {
    case 'http':
      return { form: 'forward', method: method ?? 'GET', target: prefix + rest, websocket: false }
    case 'ws':
      return { form: 'forward', method: method ?? 'GET', target: `http://${rest}`, websocket: true }
    case 'https':
    case 'wss':
      return connectLine(withPort(rest.replace(/[/?#].*$/s, '')), method)
    case '':
      if (!/:\d*$/.test(rest)) throw new RangeError(noScheme(rest))
      return connectLine(rest, method)
    default:
      throw new RangeError(
        `expected https://, http://, wss://, ws:// or host:port, found ${JSON.stringify(prefix + rest)}`,
      )
  }
}

/**
 * Removes userinfo, which ends with the last @ before the path.
 * @throws RangeError when a password seems to contain a character that ends the authority, so that its rest would be a path
 */
function hostAndPath(text: string): string {
  const [authority = ''] = /^[^/?#]*/.exec(text) ?? []
  const at = authority.lastIndexOf('@')
  const [, port = ''] = /^(?:\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority) ?? []
  if (at === -1 && /\D/.test(port) && text.includes('@')) {
    throw new RangeError('in a password, write / as %2F, ? as %3F and # as %23')
  }
  return text.slice(at + 1)
}

/** The error for a text without a scheme and without a port at its end. */
function noScheme(text: string): string {
  const [host = ''] = /^[^/?#]*/.exec(text) ?? []
  if (host === '') return `expected https://HOST/, http://HOST/ or HOST:PORT, found ${JSON.stringify(text)}`
  const path = text.slice(host.length) || '/'
  const plain = host.replace(/:\d*$/, '')
  return `write https://${host}${path}, http://${host}${path} or ${host === plain ? `${host}:443` : host}`
}

function connectLine(target: string, method: string | undefined): RequestLine {
  if (method !== undefined && method !== 'CONNECT') {
    throw new RangeError(
      'a method is for http:// and ws://; this is a CONNECT, and the requests in its tunnel cannot be seen',
    )
  }
  return { form: 'connect', method: 'CONNECT', target, websocket: false }
}

/** Adds the default port, because the target of a CONNECT needs one. */
function withPort(authority: string): string {
  const colon = authority.indexOf(':', authority.lastIndexOf(']') + 1)
  if (colon === -1) return `${authority}:${HTTPS_PORT}`
  return authority.endsWith(':') ? `${authority}${HTTPS_PORT}` : authority
}

/**
 * @param extraMethods the extension methods that the configuration allows
 * @returns the host and port of the request
 * @throws ProxyError 400, 414 or 501, as the proxy would answer
 */
export function readRequestLine(
  { method, target }: RequestLine,
  limits: HeadLimits,
  extraMethods: readonly string[],
): Authority {
  const reader = new RequestReader(limits)
  reader.input.push(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: sluice\r\n\r\n`))
  const event = reader.next()
  if (event?.type !== 'head') throw malformed('bad request line')
  const facts = classify(event.head, extraMethods)
  if (!('authority' in facts.target)) throw malformed('bad request target')
  return facts.target.authority
}
