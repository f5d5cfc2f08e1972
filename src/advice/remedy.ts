/**
 * What a configuration would have to say for a refused request to pass, as YAML to copy: a further rule for just this
 * host, port and method where one is enough, else the keys of the rule that refuses it, with what they lack.
 */
import { type Config, DEFAULT_RULES } from '../config/schema.js'
import { isNeverPermitted } from '../net/address-class.js'
import { cidrOfAddress } from '../net/cidr.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { parsePorts, type PortSet } from '../net/ports.js'
import { draftRules } from './draft-rules.js'
import type { LoggedTarget } from './log-event.js'
import { isLiftable, isPrivateLiteral, type RefusedRequest } from './refusal-text.js'
import { serializeRules, type WrittenRule } from './rules-yaml.js'
import { Sightings } from './sightings.js'

export interface RefusedByPolicy extends RefusedRequest {
  /** The address that was refused, when it is one. */
  readonly address: string | undefined
  /** The name of the client entry. */
  readonly client: string | undefined
}

/** What the system may say for localhost. */
const LOOPBACK = ['127.0.0.1/32', '::1/128']

/** @returns undefined where no line that is added would allow it */
export function draftRemedy(refused: RefusedByPolicy, config: Config): string | undefined {
  if (refused.reason === 'trace_off') return 'trace: { enabled: true }\n'
  const { target } = refused
  if (target === undefined) return undefined
  const change = changedRule(refused, target, config)
  if (change !== undefined) return serializeRules([change])
  const addresses = addressesFor(refused, target)
  if (addresses === undefined && !isLiftable(refused, config)) return undefined
  const sightings = new Sightings()
  sightings.add(target)
  const drafted = draftRules(sightings, { taken: config.rules.keys() }).map(rule => ({ ...rule, addresses }))
  const yaml = serializeRules(isDefault(config) ? [...DEFAULTS, ...drafted] : drafted)
  const lister = config.clients.find(({ name }) => name === refused.client)
  if (lister === undefined || lister.rules === 'all') return yaml
  const names = drafted.map(({ name }) => name).join(', ')
  return `# and in rules of the client ${lister.name}: ${names}\n${yaml}`
}

const DEFAULTS: WrittenRule[] = Object.entries(DEFAULT_RULES).map(([name, { hosts }]) => ({ name, hosts }))

/** Whether the rules are those that hold while the configuration has none, which others would replace. */
function isDefault({ rules }: Config): boolean {
  const web = rules.get('web')
  if (rules.size !== 1 || web === undefined) return false
  const { hosts, ports, methods, addresses } = web
  const isPlain = ports === undefined && methods === undefined && addresses.length === 0
  return isPlain && hosts.map(serializeHostPattern).join() === '*'
}

/** Addresses that a further rule needs: undefined for none, or where none would help. */
function addressesFor({ reason, address }: RefusedByPolicy, target: LoggedTarget): string[] | undefined {
  if (reason === 'localhost') return LOOPBACK
  if (reason === 'literal' && isPrivateLiteral(target)) return blockOf(target.host.name)
  return reason === 'address' && address !== undefined ? blockOf(address) : undefined
}

function blockOf(address: string): string[] | undefined {
  const parsed = parseIpAddress(address)
  const ip = parsed && unmapIpv4(parsed)
  return ip === undefined || isNeverPermitted(ip) ? undefined : [cidrOfAddress(ip).text]
}

/** The keys to replace of the rule that refuses, where a further rule would not have its addresses. */
function changedRule(
  { reason, rule: name, address }: RefusedByPolicy,
  target: LoggedTarget,
  config: Config,
): WrittenRule | undefined {
  const rule = name === undefined ? undefined : config.rules.get(name)
  if (name === undefined || rule === undefined || rule.addresses.length === 0) return undefined
  const { method, form, port } = target
  if (reason === 'port') return { name, ports: withPort(rule.ports ?? config[form].ports, port) }
  // A rule with methods refuses every tunnel, so this takes another one.
  if (reason === 'method' && form === 'forward') return { name, methods: [...(rule.methods ?? []), method] }
  if (reason === 'method') return undefined
  if (reason !== 'address' || address === undefined || !rule.addressesOnly) return undefined
  const block = blockOf(address)
  return block && { name, addresses: [...rule.addresses.map(({ text }) => text), ...block] }
}

function withPort(ports: PortSet, port: number): PortSet {
  const items = ports.map(({ first, last }) => (first === last ? first : `${first}-${last}`))
  return parsePorts([...items, port])
}
