/**
 * Admission: the decision on host, method and port, from the rules and the request alone, before any DNS query.
 *
 * A denial takes precedence over every rule, and a request that no rule allows is denied. One rule has to match host,
 * method and port together: columns of different rules never combine. If several rules match, each applies separately;
 * the most specific one is reported (address or exact name, longest suffix, `*`, then by rule name), and the order in
 * the file has no meaning. A rule with `addresses_only` restricts its hosts whichever rule allows them.
 *
 * In mode `observe`, of the policy or of the client, a request that no rule allows passes, and carries the denial it would
 * have received. Nothing else is relaxed: not `deny`, not localhost, and since no rule has matched, none makes an exception for addresses.
 *
 * A request that no rule allows and that leads to a listener of Sluice itself, as far as the host shows that without
 * DNS, is denied for that reason: allowing the host in a rule would only lead to this denial.
 */
import type { Host } from '../http/authority.js'
import { embeddedIpv4 } from '../net/address-class.js'
import type { IpAddress } from '../net/ip-address.js'
import { portsContain } from '../net/ports.js'
import { type Denial, denyAddress, denyHost, denyMethod, denyPort, denyUnnamed } from './denial.js'
import { literalAddress } from './host-index.js'
import { type AddressGuard, denyOwnListener, findDeniedBlock, type Grant } from './permit.js'
import type { CompiledRule, CompiledRules, PlacedPattern, PolicyMode, RequestForm } from './rules.js'

/**
 * `rules` names the rules that the client may use; names of rules that do not exist are ignored. `mode` is that of the client,
 * in place of the mode of the policy.
 */
export interface PolicyRequest {
  readonly form: RequestForm
  readonly method: string
  readonly host: Host
  readonly port: number
  readonly rules: readonly string[] | 'all'
  readonly mode?: PolicyMode | undefined
}

/** A request that passes, because a rule allows it or because mode `observe` does not enforce the rules. */
export interface Admitted {
  readonly kind: 'allow'
  /** The rule to name in logs: the most specific one that matches; if none matches, the nearest one. */
  readonly rule: string | undefined
  readonly grant: Grant
  /** In mode `observe`: the denial that `enforce` would give. */
  readonly wouldDeny?: Denial
}

export type Decision = Admitted | Denial

/** The rules that a client may use. */
export type UsableRules = ReadonlySet<CompiledRule> | 'all'

/** Names of rules that do not exist are ignored. */
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

  const found = matchRules(compiled, usable, request, ip)
  const rule = found.matching?.[0]?.name
  const denial = rule === undefined ? denialBy(compiled, usable, request, found) : undefined
  const mode = request.mode ?? compiled.mode
  if (denial !== undefined && (mode === 'enforce' || denial.reason === 'localhost')) return denial
  const grant: Grant = {
    host,
    port,
    rule,
    terms: found.matching ?? [],
    pins: found.pins ?? [],
    // Without a matching rule there are no methods to check.
    upgradable: found.upgradable || denial !== undefined,
    verifyServerName: found.verifies || (compiled.sni === 'verify' && !found.exempt),
  }
  if (denial === undefined) return { kind: 'allow', rule, grant }
  return { kind: 'allow', rule: denial.rule, grant, wouldDeny: denial }
}

/** How the rules that name a host and that the client may use judge a request; rules are visited most specific first. */
interface RuleMatches {
  /** The first rule, whatever it allows. */
  nearest: CompiledRule | undefined
  /** The first rule that allows the method, and the first of those that uses the shared port lists. */
  byMethod: CompiledRule | undefined
  sharesPorts: CompiledRule | undefined
  /** The rules that allow method and port. */
  matching: CompiledRule[] | undefined
  pins: CompiledRule[] | undefined
  /** Whether one of the matching rules allows every method. */
  upgradable: boolean
  /** A rule with `sni: verify` applies to its hosts whichever rule allows them ... */
  verifies: boolean
  /** ... and one with `sni: none` only to the requests that it allows itself. */
  exempt: boolean
}

function matchRules(
  compiled: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
  ip: IpAddress | undefined,
): RuleMatches {
  const found: RuleMatches = {
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
    // These restrict a host for every client: one with fewer rules must not reach more than one with all.
    if (rule.addressesOnly) found.pins = appended(found.pins, rule)
    if (rule.sni === 'verify') found.verifies = true
    if (usable !== 'all' && !usable.has(rule)) continue
    found.nearest ??= rule
    if (!allowsMethod(rule, request)) continue
    found.byMethod ??= rule
    if (hasSharedPorts(rule)) found.sharesPorts ??= rule
    if (!portsContain(rule.ports[request.form], request.port)) continue
    found.matching = appended(found.matching, rule)
    if (rule.methods === undefined) found.upgradable = true
    if (rule.sni === 'none') found.exempt = true
  }
  return found
}

/** Most lists stay empty or get one rule, so a list is created with its first rule. */
function appended(list: CompiledRule[] | undefined, rule: CompiledRule): CompiledRule[] {
  if (list === undefined) return [rule]
  list.push(rule)
  return list
}

function denialBy(
  { byName, hosts }: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
  { nearest, byMethod, sharesPorts }: RuleMatches,
): Denial {
  if (nearest === undefined) {
    const isInAny = hosts.any.some(rule => usable === 'all' || usable.has(rule))
    return denyUnnamed(request, isLocalhost(request.host), isInAny, usable === 'all' ? byName : usable)
  }
  if (byMethod === undefined) return denyMethod(request, nearest)
  return denyPort(request, sharesPorts ?? byMethod)
}

/**
 * The entry of deny.hosts, or of a file of deny.hosts_file, that matches a host, if there is one.
 *
 * @param ip the address that the host is written as; every notation of it is looked up
 * @param inside the IPv4 addresses that `ip` embeds
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
 * Whether `*` in the hosts of a rule matches a name. It does not match a single label, because the search domains of the
 * resolver decide which name that becomes. `invalid` never resolves (RFC 6761 §6.4).
 */
function isCoveredByAny(host: Host): boolean {
  return (host.name.includes('.') || host.name === 'invalid') && !isLocalhost(host)
}

/** Names of the machine that the proxy runs on, whatever a resolver may answer (RFC 6761 §6.3). */
export function isLocalhost({ kind, name }: Host): boolean {
  return kind === 'name' && (name === 'localhost' || name.endsWith('.localhost'))
}

export function allowsMethod(
  rule: CompiledRule,
  { form, method }: Pick<PolicyRequest, 'form' | 'method'>,
): boolean {
  return rule.methods === undefined || (form === 'forward' && rule.methods.has(method))
}

/** Whether the rule uses the port lists of `connect` and `forward`. */
export function hasSharedPorts(rule: CompiledRule): boolean {
  return rule.portsKey.connect === 'connect.ports'
}
