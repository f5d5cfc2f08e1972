/**
 * Suggests changes to a configuration that would allow a refused request, in steps with YAML to copy. The status page shows them
 * for each refusal.
 *
 * The change is always an additional rule, for just this host, port and method: existing lines stay as they are, and rules for
 * different refusals can be pasted below each other, because their names are unique to their purpose. No rule is suggested for
 * a metadata service, so that it is not allowed by one click; the refusal says what the service hands out.
 */
import { type Config, DEFAULT_RULES } from '../config/schema.js'
import { classifyAddress, isNeverPermitted, metadataServiceOf } from '../net/address-class.js'
import { type Cidr, cidrOfAddress } from '../net/cidr.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { ipAddressFromBytes, parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { parsePorts, serializePorts } from '../net/ports.js'
import {
  freeName,
  nameWithHosts,
  serializeRuleLines,
  serializeRules,
  type WrittenRule,
} from './draft-rules.js'
import type { LoggedTarget } from './log-reader.js'

/** A request that policy refused, or would refuse in mode enforce. */
export interface RefusedByPolicy {
  readonly reason: string | undefined
  /** The nearest rule. */
  readonly rule: string | undefined
  /** Undefined when the request is neither a tunnel nor a forwarded request. */
  readonly target: LoggedTarget | undefined
  /** The address that was refused; undefined when the refusal is not about an address. */
  readonly address: string | undefined
  /** The name of the client entry. */
  readonly client: string | undefined
}

/** One change to the configuration. */
export interface RemedyStep {
  /** A sentence; it ends with a colon if there is YAML. */
  readonly text: string
  /** The YAML to paste; undefined when there is none. */
  readonly yaml: string | undefined
}

/** The default rules, which the first rule in the file replaces. */
export const KEPT_RULES: readonly WrittenRule[] = Object.entries(DEFAULT_RULES).map(([name, { hosts }]) => ({
  name,
  hosts,
}))

/**
 * @param config the configuration in force
 * @returns empty when no additional rule would allow the request, and for metadata services
 */
export function draftRemedy(refused: RefusedByPolicy, config: Config): readonly RemedyStep[] {
  if (refused.reason === 'trace_off')
    return [{ text: 'Switch TRACE on:', yaml: 'trace: { enabled: true }\n' }]
  const { target } = refused
  const drafted = target && furtherRule(refused, target, config)
  if (drafted === undefined) return []
  const present = config.rules.get(drafted.name)
  const isThere = present !== undefined && isSame(drafted, present)
  const rule = isThere ? drafted : { ...drafted, name: freeName(drafted.name, new Set(config.rules.keys())) }
  const lister = config.clients.find(({ name }) => name === refused.client)
  const isUsable = lister === undefined || lister.rules === 'all' || lister.rules.includes(rule.name)
  const steps: RemedyStep[] = []
  if (isThere && isUsable) {
    steps.push({ text: `The configuration in force allows it: rules.${rule.name}.`, yaml: undefined })
  }
  if (!isThere && isDefault(config)) {
    steps.push({
      text: 'If the configuration has no `rules:` yet, begin them with the default rule:',
      yaml: serializeRules(KEPT_RULES),
    })
  }
  if (!isThere) {
    const text = 'For just this host, port and method, add a rule below `rules:`:'
    steps.push({ text, yaml: serializeRuleLines([rule]) })
  }
  if (!isUsable) {
    const text = `In \`clients\`, add ${rule.name} to the list of rules of the client ${lister.name}.`
    steps.push({ text, yaml: undefined })
  }
  return steps
}

/** Whether the rules are the default ones. */
function isDefault({ rules }: Config): boolean {
  const web = rules.get('web')
  if (rules.size !== 1 || web === undefined) return false
  const { hosts, hostsFiles, ports, methods, addresses } = web
  const isPlain =
    hostsFiles.length === 0 && ports === undefined && methods === undefined && addresses.length === 0
  return isPlain && hosts.map(serializeHostPattern).join() === '*'
}

/** @returns undefined when no additional rule would allow the request, or none should be suggested */
function furtherRule(
  refused: RefusedByPolicy,
  { form, method, host, port }: LoggedTarget,
  config: Config,
): WrittenRule | undefined {
  if (metadataServiceOf(host.name) !== undefined) return undefined
  const addresses = addressesFor(refused, host.name, config)
  if (addresses === undefined || addresses.some(isMetadata)) return undefined
  const ports = parsePorts([port])
  const methods = form === 'forward' ? [method] : []
  const name = nameWithHosts({
    form: form === 'forward' ? 'http' : 'tunnel',
    ports,
    methods,
    hosts: [host.name],
    address: refused.reason === 'address' ? refused.address : undefined,
  })
  const isPinned = refused.reason === 'address' && nearestRule(refused, config)?.addressesOnly === true
  return {
    name,
    hosts: [host.name],
    ports,
    methods: form === 'forward' ? methods : undefined,
    addresses: addresses.length === 0 ? undefined : addresses.map(({ text }) => text),
    addressesOnly: isPinned,
  }
}

type Rule = Config['rules'] extends ReadonlyMap<string, infer Value> ? Value : never

function nearestRule({ rule }: RefusedByPolicy, config: Config): Rule | undefined {
  return rule === undefined ? undefined : config.rules.get(rule)
}

/** The addresses of localhost. */
const LOOPBACK = ['127.0.0.1', '::1']

/**
 * The addresses that are not public and that the additional rule has to list.
 * @returns undefined when no rule would allow the request
 */
function addressesFor(refused: RefusedByPolicy, host: string, config: Config): readonly Cidr[] | undefined {
  switch (refused.reason) {
    case 'no_rule':
    case 'single_label':
      return []
    case 'localhost':
      return LOOPBACK.flatMap(text => blockOf(text) ?? [])
    case 'literal':
      return isPublic(host) ? [] : listOf(blockOf(host))
    case 'port':
    case 'method': {
      const listed = nearestRule(refused, config)?.addresses ?? []
      return listed.length > 0 || isPublic(host) ? listed : listOf(blockOf(host))
    }
    case 'address':
      return refused.address === undefined ? undefined : listOf(blockOf(refused.address))
    default:
      return undefined
  }
}

function listOf(block: Cidr | undefined): readonly Cidr[] | undefined {
  return block && [block]
}

function isPublic(host: string): boolean {
  const ip = parseIpAddress(host)
  return ip === undefined || classifyAddress(ip) === 'global'
}

/** @returns the block of just this address; undefined for text that is not an address, or one that no rule can allow */
function blockOf(address: string): Cidr | undefined {
  const parsed = parseIpAddress(address)
  const ip = parsed && unmapIpv4(parsed)
  return ip === undefined || isNeverPermitted(ip) ? undefined : cidrOfAddress(ip)
}

/** Checks the first address of the block: a larger block never allows a metadata service. */
function isMetadata({ bytes }: Cidr): boolean {
  return classifyAddress(ipAddressFromBytes(bytes)) === 'metadata'
}

/** Whether a rule of the configuration is the same as the drafted one. */
function isSame(
  drafted: WrittenRule,
  { hosts, hostsFiles, ports, methods, addresses, addressesOnly }: Rule,
): boolean {
  const has = [
    [...hosts.map(serializeHostPattern), ...hostsFiles],
    ports && serializePorts(ports),
    methods,
    addresses.map(({ text }) => text),
  ]
  const wants = [
    drafted.hosts,
    drafted.ports && serializePorts(drafted.ports),
    drafted.methods,
    drafted.addresses ?? [],
  ]
  return JSON.stringify(has) === JSON.stringify(wants) && addressesOnly === (drafted.addressesOnly === true)
}
