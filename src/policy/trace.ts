/**
 * The steps that lead to a decision, for people: which entry of `deny` matches, which rules name the host and by which
 * pattern, and how each rule judges client, method and port.
 *
 * Admission and vetting alone make the decision. A trace looks at the same data again, and ends with that decision.
 */
import { formatPath, type Path } from '../config/problem.js'
import { type Host, serializeHostPort } from '../http/authority.js'
import { type AddressClass, classifyAddress, embeddedIpv4, isNeverPermitted } from '../net/address-class.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { type IpAddress, parseIpAddress } from '../net/ip-address.js'
import { portsContain, serializePorts } from '../net/ports.js'
import {
  allowsMethod,
  type Decision,
  deniedPattern,
  hasSharedPorts,
  isLocalhost,
  type PolicyRequest,
  rulesNaming,
  type UsableRules,
} from './admission.js'
import { deniedHolder, type Denial } from './denial.js'
import { HostIndex, literalAddress } from './host-index.js'
import { type AddressGuard, findDeniedBlock, type Grant, judgeAddress, listedBlock } from './permit.js'
import {
  type CompiledRule,
  type CompiledRules,
  listPlace,
  type PlacedPattern,
  placedPatterns,
  type RequestForm,
} from './rules.js'

/**
 * `pass`: the step is no obstacle; `skip`: it does not apply to this request; `deny` and `allow`: it decides (in the steps
 * of a rule, for that rule).
 */
export type StepVerdict = 'allow' | 'deny' | 'pass' | 'skip'

export interface TraceStep {
  readonly verdict: StepVerdict
  /** The key that the step is about; the file may leave it out, so that its default applies. */
  readonly path?: Path
  readonly text: string
}

export interface Trace {
  /** The last step is the decision. */
  readonly steps: readonly TraceStep[]
  readonly decision: Decision
}

export interface AddressTrace {
  /** As given. */
  readonly address: string
  /** Undefined if it is not an IP address. */
  readonly addressClass: AddressClass | undefined
  readonly verdict: 'allow' | 'deny'
  readonly text: string
  readonly path?: Path
}

export interface TraceOptions {
  /** Whether a parent proxy resolves the name, so that no address is judged. */
  readonly isBehindParent?: boolean
  /** The key that says that the client is only observed: `mode`, or that of its entry. */
  readonly modePath?: Path
}

/** @param decision that of admission */
export function traceAdmission(
  compiled: CompiledRules,
  usable: UsableRules,
  request: PolicyRequest,
  decision: Decision,
  { isBehindParent = false, modePath = ['mode'] }: TraceOptions,
): Trace {
  const { host } = request
  const ip = literalAddress(host)
  const naming = rulesNaming(compiled, host, ip)
  return {
    steps: [
      denyHostsStep(compiled, host, ip),
      denyAddressesStep(compiled, host, ip),
      ...naming.flatMap(rule => ruleSteps(rule, usable, request, isBehindParent && ip === undefined)),
      ...otherRules(compiled, naming, host),
      ...decisionSteps(compiled, request, decision, modePath),
    ],
    decision,
  }
}

function denyHostsStep(compiled: CompiledRules, host: Host, ip: IpAddress | undefined): TraceStep {
  const denied = deniedPattern(compiled, host, ip, ip === undefined ? [] : embeddedIpv4(ip))
  if (denied === undefined) {
    const { hosts, hostLists = [] } = compiled.deny
    const holders = [
      ...(hosts.length > 0 || hostLists.length === 0 ? ['deny.hosts'] : []),
      ...hostLists.map(({ file }) => file),
    ]
    const [only, ...more] = holders
    const subject = more.length === 0 ? `${only} does not hold` : `none of ${holders.join(', ')} holds`
    const text = `${subject} ${host.name}`
    return { verdict: 'pass', path: ['deny', hostLists.length === 0 ? 'hosts' : 'hosts_file'], text }
  }
  const text = `${deniedHolder(denied)}, which matches ${host.name}`
  return { verdict: 'deny', path: patternPath(['deny'], denied), text }
}

function denyAddressesStep(
  { deny, denyAddresses }: CompiledRules,
  host: Host,
  ip: IpAddress | undefined,
): TraceStep {
  const path: Path = ['deny', 'addresses']
  if (ip === undefined) {
    return { verdict: 'skip', path, text: `deny.addresses is for what ${host.name} resolves to` }
  }
  const block = findDeniedBlock(denyAddresses, ip)
  if (block === undefined) return { verdict: 'pass', path, text: `deny.addresses does not hold ${ip.text}` }
  return {
    verdict: 'deny',
    path: [...path, deny.addresses.indexOf(block)],
    text: `deny.addresses holds ${block.text}, which holds ${ip.text}`,
  }
}

/** How one rule that names the host judges the request, up to the first condition that is not met. */
function ruleSteps(
  rule: CompiledRule,
  usable: UsableRules,
  request: PolicyRequest,
  isResolvedElsewhere: boolean,
): TraceStep[] {
  const { form, method, host, port } = request
  const { name } = rule
  const naming = namingPattern(rule, host)
  const named: TraceStep = {
    verdict: 'pass',
    path: naming === undefined ? ['rules', name] : patternPath(['rules', name], naming),
    text: `rules.${name} names ${host.name}${naming === undefined ? '' : patternText(naming)}`,
  }
  const binding = bindingSteps(rule)
  if (usable !== 'all' && !usable.has(rule)) {
    const text = `this client may not use rules.${name}`
    return [named, ...binding, { verdict: 'skip', path: ['rules', name], text }]
  }
  if (!allowsMethod(rule, request)) {
    const text =
      form === 'connect'
        ? `rules.${name}.methods is set, so the rule refuses CONNECT`
        : `rules.${name}.methods does not allow ${method}`
    return [named, ...binding, { verdict: 'deny', path: ['rules', name, 'methods'], text }]
  }
  const methods: TraceStep =
    rule.methods === undefined
      ? { verdict: 'pass', path: ['rules', name], text: `rules.${name} has no methods: it allows every one` }
      : { verdict: 'pass', path: ['rules', name, 'methods'], text: `rules.${name}.methods allows ${method}` }
  const portsPath: Path = hasSharedPorts(rule) ? [form, 'ports'] : ['rules', name, 'ports']
  const key = rule.portsKey[form]
  if (!portsContain(rule.ports[form], port)) {
    const text = `${key} allows ${serializePorts(rule.ports[form])} and not ${port}`
    return [named, ...binding, methods, { verdict: 'deny', path: portsPath, text }]
  }
  const ports: TraceStep = { verdict: 'pass', path: portsPath, text: `${key} allows ${port}` }
  const text = `rules.${name} allows it${isResolvedElsewhere ? '' : addressesText(rule)}`
  return [named, ...binding, methods, ports, { verdict: 'allow', path: ['rules', name], text }]
}

function addressesText({ addresses }: CompiledRule): string {
  if (addresses.length === 0) return ', at global addresses'
  return `, and lists the addresses ${addresses.map(({ text }) => text).join(', ')}`
}

/** The restrictions that a rule puts on its hosts, whichever rule allows the request. */
function bindingSteps({ name, addressesOnly, sni }: CompiledRule): TraceStep[] {
  const steps: TraceStep[] = []
  if (addressesOnly) {
    const text = `its hosts are reached at rules.${name}.addresses alone, whichever rule allows them`
    steps.push({ verdict: 'pass', path: ['rules', name, 'addresses_only'], text })
  }
  if (sni === 'verify') {
    const text = 'a tunnel to its hosts has to begin with TLS that names the host, whichever rule allows it'
    steps.push({ verdict: 'pass', path: ['rules', name, 'sni'], text })
  }
  return steps
}

/** The most specific pattern of a rule that matches the host. */
function namingPattern(rule: CompiledRule, host: Host): PlacedPattern | undefined {
  const index = new HostIndex<PlacedPattern>()
  for (const placed of placedPatterns(rule)) index.add(placed.pattern, placed)
  return index.matching(host, literalAddress(host))[0] ?? index.any[0]
}

function patternText(placed: PlacedPattern): string {
  const { pattern } = placed
  const place = listPlace(placed)
  const text = pattern.kind === 'exact' ? '' : ` with "${serializeHostPattern(pattern)}"`
  return place === undefined ? text : `${text}, in ${place}`
}

/** @param section the rule, or `deny` */
function patternPath(section: Path, { list, position }: PlacedPattern): Path {
  return list === undefined ? [...section, 'hosts', position] : [...section, 'hosts_file']
}

/** The number of rules that do not name the host; and why `*` does not match it, if a rule has it. */
function otherRules(
  { byName, hosts }: CompiledRules,
  naming: readonly CompiledRule[],
  host: Host,
): TraceStep[] {
  const others = byName.size - naming.length
  const steps: TraceStep[] = []
  if (hosts.any.some(rule => !naming.includes(rule))) {
    const what = isLocalhost(host)
      ? "the proxy's own machine"
      : host.kind === 'name'
        ? 'a single label'
        : 'an address'
    const text = `${host.name} is ${what}, which "*" in hosts does not cover`
    steps.push({ verdict: 'skip', path: ['rules'], text })
  }
  if (others > 0) {
    const text = others === 1 ? 'one rule does' : `${others} rules do`
    steps.push({ verdict: 'skip', path: ['rules'], text: `${text} not name ${host.name}` })
  }
  return steps
}

function decisionSteps(
  compiled: CompiledRules,
  { form, host, port }: PolicyRequest,
  decision: Decision,
  modePath: Path,
): TraceStep[] {
  const denial = decision.kind === 'deny' ? decision : decision.wouldDeny
  if (denial === undefined) {
    const rule = decision.rule ?? ''
    const text = `rules.${rule} allows ${serializeHostPort(host, port)}`
    return [{ verdict: 'allow', path: ['rules', rule], text }]
  }
  const text = `${denial.message}. ${denial.detail}`
  const denied: TraceStep = { verdict: 'deny', ...pathOf(compiled, denial, form), text }
  if (decision.kind === 'deny') return [denied]
  const passes = `${formatPath(modePath)} is observe: it passes all the same, and the log says would_deny`
  return [denied, { verdict: 'allow', path: modePath, text: passes }]
}

/** The key that a denial is about, if there is one. */
function pathOf(
  { deny, denyAddresses, byName }: CompiledRules,
  { reason, rule, address, hostsFile }: Denial,
  form: RequestForm,
): { readonly path?: Path } {
  const named = rule === undefined ? undefined : byName.get(rule)
  const ip = address === undefined ? undefined : parseIpAddress(address)
  switch (reason) {
    case 'deny_host':
      return { path: ['deny', hostsFile === undefined ? 'hosts' : 'hosts_file'] }
    case 'deny_address': {
      const block = ip === undefined ? undefined : findDeniedBlock(denyAddresses, ip)
      return { path: ['deny', 'addresses', ...(block === undefined ? [] : [deny.addresses.indexOf(block)])] }
    }
    case 'port':
      return {
        path: named === undefined || hasSharedPorts(named) ? [form, 'ports'] : ['rules', named.name, 'ports'],
      }
    case 'own_address':
      return {}
    case 'localhost':
    case 'literal':
    case 'single_label':
    case 'no_rule':
      return { path: ['rules'] }
    case 'parent':
      return { path: ['rules', ...(rule === undefined ? [] : [rule, 'addresses_only'])] }
    case 'method':
      return { path: ['rules', ...(rule === undefined ? [] : [rule, 'methods'])] }
    case 'address':
      if (ip === undefined || isNeverPermitted(ip)) return {}
      return { path: ['rules', ...(rule === undefined ? [] : [rule, 'addresses'])] }
  }
}

/** The verdict of vetting on each address separately. */
export function traceAddresses(
  guard: AddressGuard,
  compiled: CompiledRules,
  grant: Grant,
  addresses: readonly string[],
): readonly AddressTrace[] {
  return addresses.map(address => {
    const judged = judgeAddress(guard, grant, address)
    if (!('kind' in judged)) return { address, verdict: 'allow', ...whyAllowed(grant, judged) }
    const ip = parseIpAddress(address)
    const addressClass = ip === undefined ? undefined : classifyAddress(ip)
    return {
      address,
      addressClass,
      verdict: 'deny',
      text: judged.detail,
      ...pathOf(compiled, judged, 'connect'),
    }
  })
}

function whyAllowed(grant: Grant, ip: IpAddress): Pick<AddressTrace, 'addressClass' | 'text' | 'path'> {
  const addressClass = classifyAddress(ip)
  const lists = addressClass === 'global' ? grant.pins : grant.terms
  for (const terms of lists) {
    const cidr = listedBlock(terms, ip, addressClass)
    if (cidr === undefined) continue
    const path: Path = ['rules', terms.name, 'addresses', terms.addresses.indexOf(cidr)]
    return { addressClass, path, text: `rules.${terms.name}.addresses holds ${cidr.text}` }
  }
  return { addressClass, text: `${ip.text} is global` }
}
