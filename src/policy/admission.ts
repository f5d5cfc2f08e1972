/**
 * Admission: what policy says to a host, a method and a port, made of the rules and the request alone, before any
 * DNS query.
 *
 * A denial wins over every rule, and nothing is allowed that no rule allows. One rule has to match host, method and
 * port together: the columns of different rules never combine. Several may match; then each stands by itself, what
 * is reported is the most specific (address or exact name, longest suffix, `*`, then by rule name), and the order in
 * the file has no meaning. A rule with `addresses_only` binds its hosts whichever rule allows them.
 */
import type { Host } from '../http/authority.js'
import { embeddedIpv4 } from '../net/address-class.js'
import type { HostPattern } from '../net/host-pattern.js'
import type { IpAddress } from '../net/ip-address.js'
import { portsContain } from '../net/ports.js'
import { type Denial, denyAddress, denyHost, denyMethod, denyPort, denyUnnamed } from './denial.js'
import { literalAddress } from './host-index.js'
import { findDeniedBlock, type Grant } from './permit.js'
import type { CompiledRule, CompiledRules, RequestForm } from './rules.js'

/** `rules` names those the client may use; a name that no rule has allows nothing. */
export interface PolicyRequest {
  readonly form: RequestForm
  readonly method: string
  readonly host: Host
  readonly port: number
  readonly rules: readonly string[] | 'all'
}

export type Decision = { readonly kind: 'allow'; readonly rule: string; readonly grant: Grant } | Denial

/** The rules a client may use. */
export type UsableRules = ReadonlySet<CompiledRule> | 'all'

export function usableRules({ byName }: CompiledRules, names: readonly string[] | 'all'): UsableRules {
  if (names === 'all') return 'all'
  return new Set(names.flatMap(name => byName.get(name) ?? []))
}

export function decideAdmission(
  compiled: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
): Decision {
  const { host, port, form } = request
  const ip = literalAddress(host)
  const pattern = deniedPattern(compiled, host, ip)
  if (pattern !== undefined) return denyHost(request, pattern)
  const block = ip === undefined ? undefined : findDeniedBlock(compiled.denyAddresses, ip)
  if (ip !== undefined && block !== undefined) return denyAddress(host, port, ip.text, block)

  const naming = rulesNaming(compiled, host, ip)
  const named = usable === 'all' ? naming : naming.filter(rule => usable.has(rule))
  const nearest = named[0]
  if (nearest === undefined) {
    const rules = usable === 'all' ? compiled.byName : new Map([...usable].map(rule => [rule.name, rule]))
    return denyUnnamed(request, isLocalhost(host), new Set(rules.keys()))
  }
  const byMethod = named.filter(rule => allowsMethod(rule, request))
  if (byMethod[0] === undefined) return denyMethod(request, nearest)
  const matching = byMethod.filter(rule => portsContain(rule.ports[form], port))
  const first = matching[0]
  if (first === undefined) return denyPort(request, byMethod.find(hasSharedPorts) ?? byMethod[0])
  return {
    kind: 'allow',
    rule: first.name,
    grant: {
      host,
      port,
      rule: first.name,
      terms: matching,
      pins: named.filter(rule => rule.addressesOnly),
      upgradable: matching.some(rule => rule.methods === undefined),
      verifyServerName: verifiesServerName(compiled, named, matching),
    },
  }
}

/**
 * The entry of deny.hosts that matches a host, when there is one.
 *
 * @param ip the address that the host is written as; it is looked for in every spelling
 */
export function deniedPattern(
  { denyHosts }: CompiledRules,
  host: Host,
  ip: IpAddress | undefined,
): HostPattern | undefined {
  const patterns =
    ip === undefined
      ? denyHosts.named(host)
      : [ip, ...embeddedIpv4(ip)].flatMap(spelling => denyHosts.holding(spelling))
  return patterns[0] ?? denyHosts.any[0]
}

/** The rules that name a host, each once, most specific first. */
export function rulesNaming(
  { hosts }: CompiledRules,
  host: Host,
  ip: IpAddress | undefined,
): readonly CompiledRule[] {
  const named = hosts.named(host)
  const any = ip === undefined && !isLocalhost(host) ? hosts.any : []
  return [...new Set([...named, ...any])]
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

/**
 * A rule that says `verify` binds the hosts it names whichever rule allows them; one that says `none` speaks for
 * what it allows itself.
 */
function verifiesServerName(
  { sni }: CompiledRules,
  named: readonly CompiledRule[],
  matching: readonly CompiledRule[],
): boolean {
  if (named.some(rule => rule.sni === 'verify')) return true
  return sni === 'verify' && !matching.some(rule => rule.sni === 'none')
}

/** Whether the rule's ports are those of `connect` and `forward`. */
export function hasSharedPorts(rule: CompiledRule): boolean {
  return rule.portsKey.connect === 'connect.ports'
}
