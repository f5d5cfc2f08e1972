/**
 * What refused a request, and what a configuration would have to say for it to pass. `exec` prints both for all that
 * its proxy refused, the status page for each refusal.
 */
import { type Config, DEFAULT_RULES } from '../config/schema.js'
import { serializeHostPort } from '../http/authority.js'
import { classifyAddress, isNeverPermitted } from '../net/address-class.js'
import { cidrOfAddress } from '../net/cidr.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { parsePorts, type PortSet } from '../net/ports.js'
import { NO_PROXY } from '../policy/denial.js'
import { draftRules, serializeRules, type WrittenRule } from './draft-rules.js'
import { type LoggedTarget, parseLogLine, Sightings } from './log-reader.js'

/** A request that was refused, or would be. */
export interface RefusedRequest {
  readonly reason: string | undefined
  /** The rule that came nearest. */
  readonly rule: string | undefined
  /** Absent when it is neither a tunnel nor a forwarded request. */
  readonly target: LoggedTarget | undefined
}

/** Reasons that a further rule lifts. */
const LIFTABLE = new Set(['no_rule', 'single_label', 'literal', 'method', 'port'])

/**
 * Whether a drafted rule lets it pass. One beside a rule with `addresses` has none itself, and would let nothing pass
 * that resolves to them; nor does it lead to an address that is not public.
 */
export function isLiftable({ reason, rule, target }: RefusedRequest, config: Config): boolean {
  const nearest = rule === undefined ? undefined : config.rules.get(rule)
  if (target === undefined || !LIFTABLE.has(reason ?? '')) return false
  return !isPrivateLiteral(target) && (nearest === undefined || nearest.addresses.length === 0)
}

export function isPrivateLiteral({ host }: LoggedTarget): boolean {
  const ip = parseIpAddress(host.name)
  return ip !== undefined && classifyAddress(ip) !== 'global'
}

/** What refused a request, in words that name the key that decides. */
export function refusalText({ reason, rule, target }: RefusedRequest, config: Config): string {
  switch (reason) {
    case 'no_rule':
      return 'no rule names the host'
    case 'literal':
      return target !== undefined && isPrivateLiteral(target)
        ? 'no rule names the address, which is not public and so would have to be in its addresses as well'
        : 'no rule names the address'
    case 'single_label':
      return 'no rule names the host, which is a single label'
    case 'port':
      return `the port is not in ${portsKey(rule, target, config)}`
    case 'method':
      return `the method is not in rules.${rule}.methods`
    case 'localhost':
      return 'no rule names the host, whose address would have to be in its addresses as well'
    case 'deny_host':
      return `${denyingKeys(config)} the host`
    case 'deny_address':
      return 'deny.addresses holds its address'
    case 'address':
      return rule === undefined
        ? 'its address is not public; it takes a rule that lists it in addresses'
        : `its address is not public and not in rules.${rule}.addresses`
    case 'parent':
      return `rules.${rule}.addresses_only is true, and parent would choose the address; parent.no_proxy could name the host`
    case 'own_address':
      return `it is this proxy itself; set NO_PROXY=${NO_PROXY.join(',')} where the client runs`
    default:
      return reason ?? 'refused'
  }
}

/** What may hold a denied host; which of several does is not in the log. */
function denyingKeys({ deny: { hosts, hostsFiles } }: Config): string {
  const keys = [
    ...(hosts.length > 0 || hostsFiles.length === 0 ? ['deny.hosts'] : []),
    ...(hostsFiles.length > 0 ? [`deny.hosts_file (${hostsFiles.join(', ')})`] : []),
  ]
  return `${keys.join(' or ')} holds`
}

function portsKey(rule: string | undefined, target: LoggedTarget | undefined, config: Config): string {
  const own = rule === undefined ? undefined : config.rules.get(rule)?.ports
  if (rule !== undefined && own !== undefined) return `rules.${rule}.ports`
  return `${target?.form ?? 'connect'}.ports`
}

export interface RefusedByPolicy extends RefusedRequest {
  /** The address that was refused, when it is one. */
  readonly address: string | undefined
  /** The name of the client entry. */
  readonly client: string | undefined
}

/** What the system may say for localhost. */
const LOOPBACK = ['127.0.0.1/32', '::1/128']

/**
 * What a configuration would have to say for a refused request to pass, as YAML to copy: a further rule for just this
 * host, port and method where one is enough, else the keys of the rule that refuses it, with what they lack.
 * @returns undefined where no line that is added would allow it
 */
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
  const { hosts, hostsFiles, ports, methods, addresses } = web
  const isPlain =
    hostsFiles.length === 0 && ports === undefined && methods === undefined && addresses.length === 0
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

/** What the rules that are there have to do with the ones that are drafted. */
export interface RefusalContext {
  readonly config: Config
  /** Whether the configuration leaves `rules` out, so that those written there replace the default. */
  readonly defaultRules: boolean
  /** The entry of `clients` whose rules are a list, to which a new rule has to be added; else undefined. */
  readonly listedClient?: string | undefined
}

/** Targets told one by one. */
const MAX_LINES = 100

interface Refused {
  readonly target: string
  readonly method: string
  readonly text: string
  count: number
}

/**
 * What a private proxy refused a program, told when the program has ended: each target once, with what refused it, and
 * the rules that would have let it pass.
 */
export class Refusals {
  readonly #context: RefusalContext
  readonly #refused = new Map<string, Refused>()
  readonly #liftable = new Sightings()
  #requests = 0
  #passed = 0

  constructor(context: RefusalContext) {
    this.#context = context
  }

  /** @param line a line of the log, in JSON */
  add(line: string): void {
    const event = parseLogLine(line)
    if (event === undefined || event.event === 'other') return
    const { target } = event
    if (event.event === 'close') {
      if (target?.form === 'forward' && event.status === 101) this.#liftable.addUpgrade(target)
      return
    }
    if (event.decision === 'allow') return
    this.#requests += 1
    if (event.decision === 'would_deny') this.#passed += 1
    const { config } = this.#context
    const where = target === undefined ? 'no target' : serializeHostPort(target.host, target.port)
    const method = target?.method ?? 'a request'
    const text = refusalText(event, config)
    const key = `${where} ${method} ${text}`
    const refused = this.#refused.get(key) ?? { target: where, method, text, count: 0 }
    this.#refused.set(key, refused)
    refused.count += 1
    if (target !== undefined && isLiftable(event, config)) this.#liftable.add(target)
  }

  /** What to print; empty when nothing was refused. */
  report(): string {
    if (this.#requests === 0) return ''
    const lines = [`sluice: ${this.#headline()}`]
    const all = [...this.#refused.values()]
    for (const { target, method, text, count } of all.slice(0, MAX_LINES)) {
      lines.push(`  ${target}  ${method}${count === 1 ? '' : `, ${count} times`}: ${text}`)
    }
    if (all.length > MAX_LINES) lines.push(`  and ${all.length - MAX_LINES} more`)
    return `${[...lines, ...this.#remedy()].join('\n')}\n`
  }

  #headline(): string {
    const denied = this.#requests - this.#passed
    if (this.#passed === 0) return `${requests(denied)} denied:`
    if (denied === 0) return `${requests(this.#passed)} would be denied if mode were enforce:`
    return `${requests(denied)} denied, ${this.#passed} more would be if mode were enforce:`
  }

  #remedy(): string[] {
    const { config, defaultRules, listedClient } = this.#context
    const rules = draftRules(this.#liftable, { taken: config.rules.keys() })
    if (rules.length === 0) return []
    const names = rules.map(({ name }) => name).join(', ')
    const kept = Object.entries(DEFAULT_RULES).map(([name, { hosts }]) => ({ name, hosts }))
    const yaml = serializeRules(defaultRules ? [...kept, ...rules] : rules)
    return [
      defaultRules
        ? 'Rules that would allow it, with the one that holds while the configuration has none:'
        : 'Rules that would allow it, to be added to those of the configuration:',
      ...(listedClient === undefined
        ? []
        : [`(and their names to rules of the client ${listedClient}: ${names})`]),
      '',
      yaml.trimEnd(),
    ]
  }
}

function requests(count: number): string {
  return count === 1 ? '1 request' : `${count} requests`
}
