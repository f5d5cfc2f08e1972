/** Describes why a request was refused, and makes the summary of refusals that `exec` prints, with rules that allow them. */
import type { Config } from '../config/schema.js'
import { serializeHostPort } from '../http/authority.js'
import { classifyAddress, metadataServiceOf } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'
import { NO_PROXY } from '../policy/denial.js'
import { draftRules, serializeRuleLines, serializeRules } from './draft-rules.js'
import { type LoggedTarget, parseLogLine, Sightings } from './log-reader.js'
import { KEPT_RULES } from './remedy.js'

/** A request that was refused, or would be in mode enforce. */
export interface RefusedRequest {
  readonly reason: string | undefined
  /** The nearest rule. */
  readonly rule: string | undefined
  /** Undefined when the request is neither a tunnel nor a forwarded request. */
  readonly target: LoggedTarget | undefined
}

/** Reasons for which an additional rule helps. */
const LIFTABLE = new Set(['no_rule', 'single_label', 'literal', 'method', 'port'])

/**
 * Whether a drafted rule allows the request. Drafted rules have no `addresses`, so they allow no host that needs those of the
 * nearest rule, and no address that is not public.
 */
export function isLiftable({ reason, rule, target }: RefusedRequest, config: Config): boolean {
  const nearest = rule === undefined ? undefined : config.rules.get(rule)
  if (target === undefined || !LIFTABLE.has(reason ?? '')) return false
  if (metadataServiceOf(target.host.name) !== undefined) return false
  return !isPrivateLiteral(target) && (nearest === undefined || nearest.addresses.length === 0)
}

export function isPrivateLiteral({ host }: LoggedTarget): boolean {
  const ip = parseIpAddress(host.name)
  return ip !== undefined && classifyAddress(ip) !== 'global'
}

/** Why a request was refused, in one clause that names the deciding key. */
export function refusalText({ reason, rule, target }: RefusedRequest, config: Config): string {
  switch (reason) {
    case 'no_rule':
      return `no rule names the host${target === undefined ? '' : addressClause(target)}`
    case 'literal':
      return `no rule names the address${target === undefined ? '' : addressClause(target)}`
    case 'single_label':
      return target !== undefined && metadataServiceOf(target.host.name) !== undefined
        ? `no rule names the host${addressClause(target)}`
        : 'no rule names the host, which is a single label'
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
      if (target !== undefined && metadataServiceOf(target.host.name) !== undefined)
        return `the address is${addressClause(target).slice(1)}`
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

/** The keys that may list a denied host; the log does not say which of them does. */
function denyingKeys({ deny: { hosts, hostsFiles } }: Config): string {
  const keys = [
    ...(hosts.length > 0 || hostsFiles.length === 0 ? ['deny.hosts'] : []),
    ...(hostsFiles.length > 0 ? [`deny.hosts_file (${hostsFiles.join(', ')})`] : []),
  ]
  return `${keys.join(' or ')} holds`
}

/** A clause about a host that is a metadata service, or an IP literal that is not public. */
function addressClause(target: LoggedTarget): string {
  const service = metadataServiceOf(target.host.name)
  if (service !== undefined) return `, a metadata service, which hands out ${service.contents}`
  return isPrivateLiteral(target)
    ? ', which is not public and so would have to be in its addresses as well'
    : ''
}

function portsKey(rule: string | undefined, target: LoggedTarget | undefined, config: Config): string {
  const own = rule === undefined ? undefined : config.rules.get(rule)?.ports
  if (rule !== undefined && own !== undefined) return `rules.${rule}.ports`
  return `${target?.form ?? 'connect'}.ports`
}

/** The existing configuration that drafted rules are added to. */
export interface RefusalContext {
  readonly config: Config
  /** Whether the configuration has no `rules`, so that the first rules in it replace the default. */
  readonly defaultRules: boolean
  /** The client whose list of rules a new rule has to be added to; undefined when it may use all rules. */
  readonly listedClient?: string | undefined
}

/** The number of targets that are listed. */
const MAX_LINES = 100

interface Refused {
  readonly target: string
  readonly method: string
  readonly text: string
  count: number
}

/**
 * The summary of the requests that a private proxy refused, printed after the program has ended: each target once, with the
 * reason, and rules that would allow the requests.
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

  /** @returns the text to print; empty when nothing was refused */
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
    const rules = draftRules(this.#liftable, { taken: config.rules.keys(), namesHosts: true })
    if (rules.length === 0) return []
    const names = rules.map(({ name }) => name).join(', ')
    const lines = serializeRuleLines(rules)
    const yaml = defaultRules ? `${serializeRules(KEPT_RULES)}${BELOW_KEPT}${lines}` : lines
    return [
      defaultRules
        ? 'Rules that would allow it, with the one that holds while the configuration has none:'
        : 'Rules that would allow it, to be added below `rules:` of the configuration:',
      ...(listedClient === undefined
        ? []
        : [`(and their names to rules of the client ${listedClient}: ${names})`]),
      '',
      yaml.trimEnd(),
    ]
  }
}

/** Tells how to paste a second summary into the same file. */
const BELOW_KEPT = '  # If there is a `rules:` already, add only the lines below this one.\n'

function requests(count: number): string {
  return count === 1 ? '1 request' : `${count} requests`
}
