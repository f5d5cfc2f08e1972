/**
 * Admission: what policy says to a host, a method and a port, made of the rules and the request alone, before any
 * DNS query.
 *
 * A denial wins over every rule, and nothing is allowed that no rule allows. One rule has to match host, method and
 * port together: the columns of different rules never combine. Several may match; then each stands by itself, what
 * is reported is the most specific (address or exact name, longest suffix, `*`, then by rule name), and the order in
 * the file has no meaning. A rule with `addresses_only` binds its hosts whichever rule allows them.
 *
 * In mode `observe` what no rule allows passes all the same, and carries the denial it would have met. Nothing else
 * is loosened: not what `deny` says, not localhost, and no rule has matched, so none lifts the guard on addresses.
 *
 * What no rule allows and leads to a listener of Sluice itself, as far as a host says so without DNS, is refused for
 * that: a key that would allow the host leads to the next refusal and nowhere else.
 */
import type { Host } from '../http/authority.js'
import { embeddedIpv4 } from '../net/address-class.js'
import type { IpAddress } from '../net/ip-address.js'
import { portsContain } from '../net/ports.js'
import { type Denial, denyAddress, denyHost, denyMethod, denyPort, denyUnnamed } from './denial.js'
import { literalAddress } from './host-index.js'
import { type AddressGuard, denyOwnListener, findDeniedBlock, type Grant } from './permit.js'
import type { CompiledRule, CompiledRules, PlacedPattern, RequestForm } from './rules.js'

/** `rules` names those the client may use; a name that no rule has allows nothing. */
export interface PolicyRequest {
  readonly form: RequestForm
  readonly method: string
  readonly host: Host
  readonly port: number
  readonly rules: readonly string[] | 'all'
}

/** What policy lets pass: because a rule allows it, or because denials by the rules are only observed. */
export interface Admitted {
  readonly kind: 'allow'
  /** The rule to name in logs: the most specific that matches; when none does, the one that came nearest. */
  readonly rule: string | undefined
  readonly grant: Grant
  /** In mode `observe`: what would have been said to it. */
  readonly wouldDeny?: Denial
}

export type Decision = Admitted | Denial

/** The rules a client may use. */
export type UsableRules = ReadonlySet<CompiledRule> | 'all'

/** A name that no rule has is no rule. */
export function usableRules({ byName }: CompiledRules, names: readonly string[]): UsableRules {
  return new Set(names.flatMap(name => byName.get(name) ?? []))
}

const NOTHING: readonly never[] = []

export function decideAdmission(
  compiled: CompiledRules,
  guard: AddressGuard,
  usable: UsableRules,
  request: PolicyRequest,
): Decision {
  const decision = decideByRules(compiled, usable, request)
  if (decision.kind === 'allow' && decision.wouldDeny === undefined) return decision
  const { host, port } = request
  return denyOwnListener(guard, host, port, isLocalhost(host)) ?? decision
}

function decideByRules(compiled: CompiledRules, usable: UsableRules, request: PolicyRequest): Decision {
  const { host, port } = request
  const ip = literalAddress(host)
  const inside = ip === undefined ? NOTHING : embeddedIpv4(ip)
  const pattern = deniedPattern(compiled, host, ip, inside)
  if (pattern !== undefined) return denyHost(request, pattern)
  const block = ip === undefined ? undefined : findDeniedBlock(compiled.denyAddresses, ip, inside)
  if (ip !== undefined && block !== undefined) return denyAddress(host, port, ip.text, block)

  const found = askRules(compiled, usable, request, ip)
  const rule = found.matching?.[0]?.name
  const denial = rule === undefined ? denialBy(compiled, usable, request, found) : undefined
  if (denial !== undefined && (compiled.mode === 'enforce' || denial.reason === 'localhost')) return denial
  const grant: Grant = {
    host,
    port,
    rule,
    terms: found.matching ?? [],
    pins: found.pins ?? [],
    // Where no rule matches, none looks into methods either.
    upgradable: found.upgradable || denial !== undefined,
    verifyServerName: found.verifies || (compiled.sni === 'verify' && !found.exempt),
  }
  if (denial === undefined) return { kind: 'allow', rule, grant }
  return { kind: 'allow', rule: denial.rule, grant, wouldDeny: denial }
}

/** What the rules that name a host and that the client may use say to a request, most specific first. */
interface Answers {
  /** The first, whatever it allows. */
  nearest: CompiledRule | undefined
  /** Of those that allow the method, the first, and the first whose ports are those of all rules. */
  byMethod: CompiledRule | undefined
  sharesPorts: CompiledRule | undefined
  /** Those that allow method and port. */
  matching: CompiledRule[] | undefined
  pins: CompiledRule[] | undefined
  /** Whether one of those that match does not look into methods. */
  upgradable: boolean
  /** A rule that says `verify` binds the hosts it names whichever rule allows them ... */
  verifies: boolean
  /** ... and one that says `none` speaks for what it allows itself. */
  exempt: boolean
}

function askRules(
  compiled: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
  ip: IpAddress | undefined,
): Answers {
  const found: Answers = {
    nearest: undefined,
    byMethod: undefined,
    sharesPorts: undefined,
    matching: undefined,
    pins: undefined,
    upgradable: false,
    verifies: false,
    exempt: false,
  }
  for (const rule of rulesNaming(compiled, request.host, ip)) {
    // These bind a host for everybody: who may use fewer rules must not reach more than who may use all.
    if (rule.addressesOnly) found.pins = extended(found.pins, rule)
    if (rule.sni === 'verify') found.verifies = true
    if (usable !== 'all' && !usable.has(rule)) continue
    found.nearest ??= rule
    if (!allowsMethod(rule, request)) continue
    found.byMethod ??= rule
    if (hasSharedPorts(rule)) found.sharesPorts ??= rule
    if (!portsContain(rule.ports[request.form], request.port)) continue
    found.matching = extended(found.matching, rule)
    if (rule.methods === undefined) found.upgradable = true
    if (rule.sni === 'none') found.exempt = true
  }
  return found
}

/** Most lists stay empty or get one rule: they are made when there is something to put in. */
function extended(list: CompiledRule[] | undefined, rule: CompiledRule): CompiledRule[] {
  if (list === undefined) return [rule]
  list.push(rule)
  return list
}

function denialBy(
  { byName, hosts }: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
  { nearest, byMethod, sharesPorts }: Answers,
): Denial {
  if (nearest === undefined) {
    const isInAny = hosts.any.some(rule => usable === 'all' || usable.has(rule))
    return denyUnnamed(request, isLocalhost(request.host), isInAny, usable === 'all' ? byName : usable)
  }
  if (byMethod === undefined) return denyMethod(request, nearest)
  return denyPort(request, sharesPorts ?? byMethod)
}

/**
 * The entry of deny.hosts, or of a file of deny.hosts_file, that matches a host, when there is one.
 *
 * @param ip the address that the host is written as; it is looked for in every spelling
 * @param inside the IPv4 addresses that it holds
 */
export function deniedPattern(
  { denyHosts }: CompiledRules,
  host: Host,
  ip: IpAddress | undefined,
  inside: readonly IpAddress[],
): PlacedPattern | undefined {
  const pattern = denyHosts.matching(host, ip)[0] ?? denyHosts.any[0]
  if (pattern !== undefined || inside.length === 0) return pattern
  return inside.flatMap(embedded => denyHosts.holding(embedded))[0]
}

/** The rules that name a host, each once, most specific first. */
export function rulesNaming(
  { hosts }: CompiledRules,
  host: Host,
  ip: IpAddress | undefined,
): readonly CompiledRule[] {
  const named = hosts.matching(host, ip)
  const reached = ip === undefined && hosts.any.length > 0 && isCoveredByAny(host)
  if (!reached && named.length < 2) return named
  if (reached && named.length === 0) return hosts.any
  return [...new Set(reached ? [...named, ...hosts.any] : named)]
}

/**
 * Whether `*` in the hosts of a rule covers a name. It does not cover a single label: what that leads to is not its own
 * doing but that of the search domains of whoever resolves it. `invalid` leads nowhere (RFC 6761 §6.4).
 */
function isCoveredByAny(host: Host): boolean {
  return (host.name.includes('.') || host.name === 'invalid') && !isLocalhost(host)
}

/** Names of the machine the proxy runs on, whatever a resolver may say (RFC 6761 §6.3). */
export function isLocalhost({ kind, name }: Host): boolean {
  return kind === 'name' && (name === 'localhost' || name.endsWith('.localhost'))
}

export function allowsMethod(
  rule: CompiledRule,
  { form, method }: Pick<PolicyRequest, 'form' | 'method'>,
): boolean {
  return rule.methods === undefined || (form === 'forward' && rule.methods.has(method))
}

/** Whether the rule's ports are those of `connect` and `forward`. */
export function hasSharedPorts(rule: CompiledRule): boolean {
  return rule.portsKey.connect === 'connect.ports'
}
