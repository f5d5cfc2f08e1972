/**
 * The rules in the form that decisions use: those of the configuration, indexed by host when it is loaded.
 *
 * Rules are compiled in the order of their names, so that no decision can depend on their order in the file.
 */
import type { HostList } from '../config/line-files.js'
import type { Cidr } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import type { HostPattern } from '../net/host-pattern.js'
import type { PortSet } from '../net/ports.js'
import { HostIndex } from './host-index.js'

/** One rule. `ports` replaces both port lists; without `methods` every method and CONNECT are allowed. */
export interface RuleInput {
  readonly hosts: readonly HostPattern[]
  /** More hosts, from files. */
  readonly hostLists?: readonly HostList[]
  readonly ports?: PortSet
  readonly methods?: readonly string[]
  /** Addresses that are allowed although they are not global. */
  readonly addresses: readonly Cidr[]
  /** True: only `addresses` are allowed, not even other global addresses. */
  readonly addressesOnly: boolean
  /** Replaces the `sni` of the policy. */
  readonly sni?: 'none' | 'verify'
}

/** In `observe` requests that no rule allows pass. */
export type PolicyMode = 'enforce' | 'observe'

export interface PolicyInput {
  /** `enforce` if absent. */
  readonly mode?: PolicyMode
  readonly connectPorts: PortSet
  readonly forwardPorts: PortSet
  /** Whether tunnels have to name their host in TLS, unless a rule has its own `sni`. */
  readonly sni: 'none' | 'verify'
  readonly rules: ReadonlyMap<string, RuleInput>
  readonly deny: {
    readonly hosts: readonly HostPattern[]
    /** More hosts, from files. */
    readonly hostLists?: readonly HostList[]
    readonly addresses: readonly Cidr[]
  }
}

/** How a request reaches its target: through a tunnel (CONNECT), or forwarded (absolute-form). */
export type RequestForm = 'connect' | 'forward'

/** `ports` by form, and `portsKey` by form: the configuration key those ports come from. */
export interface CompiledRule {
  readonly name: string
  readonly hosts: readonly HostPattern[]
  readonly hostLists: readonly HostList[]
  readonly ports: Readonly<Record<RequestForm, PortSet>>
  readonly portsKey: Readonly<Record<RequestForm, string>>
  readonly methods: ReadonlySet<string> | undefined
  readonly addresses: readonly Cidr[]
  readonly addressesOnly: boolean
  readonly sni: 'none' | 'verify' | undefined
}

/** A pattern of a rule or of `deny`, with its place in the configuration. */
export interface PlacedPattern {
  readonly pattern: HostPattern
  /** The file that lists it; undefined for the key `hosts` itself. */
  readonly list: HostList | undefined
  /** Its position in `hosts`, or in the patterns of the file. */
  readonly position: number
}

/** `byName` is sorted by name. */
export interface CompiledRules {
  readonly byName: ReadonlyMap<string, CompiledRule>
  readonly hosts: HostIndex<CompiledRule>
  readonly denyHosts: HostIndex<PlacedPattern>
  readonly denyAddresses: CidrTree<Cidr>
  readonly deny: PolicyInput['deny']
  readonly mode: PolicyMode
  readonly sni: PolicyInput['sni']
}

export function compileRules(input: PolicyInput): CompiledRules {
  const compiled = {
    byName: new Map<string, CompiledRule>(),
    hosts: new HostIndex<CompiledRule>(),
    denyHosts: new HostIndex<PlacedPattern>(),
    denyAddresses: new CidrTree<Cidr>(),
    deny: input.deny,
    mode: input.mode ?? ('enforce' as const),
    sni: input.sni,
  }
  for (const [name, rule] of [...input.rules].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const entry = compileRule(name, rule, input)
    compiled.byName.set(name, entry)
    for (const pattern of rule.hosts) compiled.hosts.add(pattern, entry)
    for (const { patterns } of entry.hostLists) {
      for (const pattern of patterns) compiled.hosts.add(pattern, entry)
    }
  }
  for (const placed of placedPatterns(input.deny)) compiled.denyHosts.add(placed.pattern, placed)
  for (const cidr of input.deny.addresses) compiled.denyAddresses.add(cidr, cidr)
  return compiled
}

/** All patterns of a rule or of `deny`, those of the key `hosts` first. */
export function* placedPatterns({
  hosts,
  hostLists = [],
}: Pick<RuleInput, 'hosts' | 'hostLists'>): Generator<PlacedPattern> {
  for (const [position, pattern] of hosts.entries()) yield { pattern, list: undefined, position }
  for (const list of hostLists) {
    for (const [position, pattern] of list.patterns.entries()) yield { pattern, list, position }
  }
}

/** The place of a pattern from a file, such as `hosts.txt:17`; undefined for one of the key `hosts`. */
export function listPlace({ list, position }: PlacedPattern): string | undefined {
  return list === undefined ? undefined : `${list.file}:${list.lines[position]}`
}

function compileRule(name: string, rule: RuleInput, input: PolicyInput): CompiledRule {
  const key = `rules.${name}.ports`
  return {
    name,
    hosts: rule.hosts,
    hostLists: rule.hostLists ?? [],
    ports: { connect: rule.ports ?? input.connectPorts, forward: rule.ports ?? input.forwardPorts },
    portsKey:
      rule.ports === undefined
        ? { connect: 'connect.ports', forward: 'forward.ports' }
        : { connect: key, forward: key },
    methods: rule.methods === undefined ? undefined : new Set(rule.methods),
    addresses: rule.addresses,
    addressesOnly: rule.addressesOnly,
    sni: rule.sni,
  }
}
