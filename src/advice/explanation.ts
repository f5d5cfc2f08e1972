/**
 * What becomes of a request, and why: everything the proxy would go through before it connects, in its order, with
 * its own policy and its own resolver. What it decides is asked of the policy itself, so that an explanation can not
 * tell another story than the proxy; nothing is connected to.
 */
import { holdsAddress, UNIX_CLIENT } from '../clients/identify.js'
import {
  certificateMissing,
  credentialsRefused,
  unknownAddress,
  unknownUnixClient,
} from '../clients/refusals.js'
import { formatPath, type Path } from '../config/problem.js'
import type { Config } from '../config/schema.js'
import type { Resolver } from '../dns/resolve.js'
import { malformed, ProxyError } from '../errors.js'
import { resourceMethods } from '../http/allow.js'
import type { Authority } from '../http/authority.js'
import type { HeadLimits } from '../http1/byte-queue.js'
import { RequestReader } from '../http1/request-reader.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { type IpAddress, parseSocketAddress } from '../net/ip-address.js'
import { classify } from '../pipeline/classify.js'
import { traceDisabled } from '../pipeline/hop.js'
import type { Policy } from '../policy/decision.js'
import type { Denial } from '../policy/denial.js'
import type { NoProxy } from '../policy/no-proxy.js'
import type { Grant } from '../policy/permit.js'
import type { RequestForm } from '../policy/rules.js'
import type { AddressTrace, TraceStep } from '../policy/trace.js'
import { resolveGranted } from '../upstream/granted-host.js'

/** `would_deny`: mode observe lets it pass. `invalid`: malformed. `dns_failed`: allowed by name, and no more is known. */
export type Verdict = 'allow' | 'would_deny' | 'deny' | 'invalid' | 'dns_failed'

/** The answer of the proxy, or in mode observe what it would have been. */
export interface Refusal {
  readonly status: number
  readonly reason: string
  readonly message: string
  readonly detail?: string | undefined
}

/** What DNS said, and how long that took. */
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
  /** The rule that allows it, or came nearest. */
  readonly rule?: string | undefined
  readonly refusal?: Refusal
  readonly steps: readonly TraceStep[]
  /** Undefined when nothing was asked. */
  readonly lookup?: Lookup
  readonly addresses: readonly AddressTrace[]
  /** What holds for the request when it passes. */
  readonly notes: readonly string[]
}

export interface ExplainParts {
  readonly config: Config
  readonly policy: Policy
  /** Undefined when there is no parent proxy. */
  readonly noProxy?: NoProxy | undefined
  /** Undefined for a judgement by name alone: a name is then never asked for, and no address judged but one that is asked for. */
  readonly resolver: Resolver | undefined
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

type Base = Pick<Explanation, 'request' | 'client' | 'steps' | 'addresses' | 'notes'>

/** Never rejects for what the proxy would answer with an error. */
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
  return await judgeHost(base, { ...authority, rules: client.rules }, parts)
}

async function judgeHost(
  base: Base,
  { host, port, rules }: Pick<Authority, 'host' | 'port'> & Pick<KnownClient, 'rules'>,
  parts: ExplainParts,
): Promise<Explanation> {
  const { form, method } = base.request
  const { policy, resolver } = parts
  const asked = { form, method, host, port, rules }
  const decision = policy.admit(asked)
  const { rule } = decision
  const isBehindParent = parts.noProxy !== undefined && parts.noProxy.entryFor(host) === undefined
  const { steps } = policy.trace(asked, { isBehindParent })
  const traced = { ...base, rule, steps: [...base.steps, ...steps] }
  if (decision.kind === 'deny') return { ...traced, verdict: 'deny', refusal: answerTo(decision, form) }
  const { grant, wouldDeny } = decision
  let granted = grant
  const passed = (judged: Base & Pick<Explanation, 'rule' | 'lookup'>): Explanation => {
    const notes = notesOn(base.request, granted, parts)
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

/** What the search domains made of the host is denied. */
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

/** What an allowed request has to keep to. */
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

/** Which way out it takes, where there are two. */
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

/** Whoever meets the conditions of no entry. */
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

/** A refusal that no step of the policy tells of is a step of its own. */
function refused(base: Base, verdict: 'deny' | 'invalid', error: ProxyError): Explanation {
  const refusal = answerOf(error)
  const { message, detail } = refusal
  const text = detail === undefined ? message : `${message}. ${detail}`
  return { ...base, verdict, refusal, steps: [...base.steps, { verdict: 'deny', text }] }
}

function answerOf({ status, reason, message, detail }: ProxyError): Refusal {
  return { status, reason, message, detail }
}

/** A refused CONNECT is 403 also where a forwarded request would be 508. */
function answerTo({ status, reason, message, detail }: Denial, form: RequestForm): Refusal {
  return { status: form === 'connect' ? 403 : status, reason, message, detail }
}

type Entry = Config['clients'][number]

export interface KnownClient {
  readonly kind: 'known'
  readonly name: string
  /** Undefined when the entry was asked for by its name. */
  readonly address: string | undefined
  readonly path: Path
  readonly rules: Entry['rules']
  /** What the entries that hold the address say, up to it. */
  readonly steps: readonly TraceStep[]
}

export interface UnknownClient {
  readonly kind: 'unknown'
  readonly address: string
  readonly steps: readonly TraceStep[]
  /** What could help: name and password where an entry that holds the address asks for them, or a certificate. */
  readonly lacks: 'credentials' | 'certificate' | 'entry'
}

/**
 * For whom a request is explained: an entry of `clients` by its name, or whoever connects from an address and proves
 * nothing.
 * @param text an IP address, the name of an entry, or `unix`: without credentials over a Unix socket
 * @throws RangeError with one clause when it is neither
 */
export function findClient(clients: Config['clients'], text: string): KnownClient | UnknownClient {
  const index = clients.findIndex(({ name }) => name === text)
  const ip = text === UNIX_CLIENT && index === -1 ? UNIX_CLIENT : parseSocketAddress(text)
  if (ip !== undefined) return findByAddress(clients, text, ip)
  const entry = clients[index]
  if (entry === undefined) {
    const names = clients.map(({ name }) => name).join(', ') || 'none'
    throw new RangeError(
      `expected an IP address or the name of a client (${names}), found ${JSON.stringify(text)}`,
    )
  }
  const path = ['clients', index]
  return { kind: 'known', name: text, address: undefined, path, rules: entry.rules, steps: [] }
}

function findByAddress(
  clients: Config['clients'],
  address: string,
  ip: IpAddress | typeof UNIX_CLIENT,
): KnownClient | UnknownClient {
  const steps: TraceStep[] = []
  let lacks: UnknownClient['lacks'] = 'entry'
  for (const [index, entry] of clients.entries()) {
    const path: Path = ['clients', index]
    const say = (verdict: TraceStep['verdict'], text: string) =>
      steps.push({ verdict, path, text: `${formatPath(path)} ${entry.name} ${text}` })
    if (!holdsAddress(entry, ip)) continue
    if (entry.certificate !== undefined) {
      if (lacks === 'entry') lacks = 'certificate'
      say('skip', 'needs credentials (a client certificate)')
    } else if (entry.basic !== undefined) {
      lacks = 'credentials'
      say('skip', 'needs credentials (name and password)')
    } else {
      say('pass', `holds ${address}`)
      return { kind: 'known', name: entry.name, address, path, rules: entry.rules, steps }
    }
  }
  return { kind: 'unknown', address, steps, lacks }
}

export interface RequestLine {
  readonly form: RequestForm
  readonly method: string
  /** The request target, as it would be sent. */
  readonly target: string
  /** Whether an Upgrade to WebSocket would be asked for. */
  readonly websocket: boolean
}

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//
const HTTPS_PORT = 443

/**
 * The request that a client with this proxy would send for a URL: CONNECT for `https://` and for a bare `host:port`,
 * the URL itself for `http://`.
 *
 * The request line is read by the same reader as any other, so that what is malformed here is malformed there, and
 * is told in the same words. A name and a password in front of the host are in no request line: clients send them in
 * Authorization (RFC 9110 §4.2.4). So they are left out here, and out of every message.
 * @param url `https://`, `http://`, `wss://` or `ws://` and what follows, or `host:port`
 * @param method of a forwarded request; GET when left out
 * @throws RangeError with one clause when no request can be meant
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
 * Without a name and a password. They end with the last @ of what stands in front of the path.
 * @throws RangeError where a password seems to hold what ends an authority: the rest of it would be taken for a path
 */
function hostAndPath(text: string): string {
  const [authority = ''] = /^[^/?#]*/.exec(text) ?? []
  const at = authority.lastIndexOf('@')
  const [, port = ''] = /^(?:\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority) ?? []
  if (at === -1 && /\D/.test(port) && text.includes('@')) {
    throw new RangeError('in a password / is written %2F, ? is written %3F and # is written %23')
  }
  return text.slice(at + 1)
}

/** What was meant by a text without a scheme, and without a port at its end. */
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
      'a method is for http:// and ws://; this is a CONNECT, and what goes through its tunnel cannot be seen',
    )
  }
  return { form: 'connect', method: 'CONNECT', target, websocket: false }
}

/** As clients write the target of a CONNECT, for which a port is required. */
function withPort(authority: string): string {
  const colon = authority.indexOf(':', authority.lastIndexOf(']') + 1)
  if (colon === -1) return `${authority}:${HTTPS_PORT}`
  return authority.endsWith(':') ? `${authority}${HTTPS_PORT}` : authority
}

/**
 * @param extraMethods the extension methods that pass
 * @returns where the request leads
 * @throws ProxyError 400, 414 or 501: what the proxy would answer to whoever sent it
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
