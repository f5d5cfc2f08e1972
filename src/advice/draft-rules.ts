/**
 * Drafts rules that allow the requests that were observed, and no others.
 *
 * A rule allows all of its ports and methods for all of its hosts. So there is one rule for each way in which ports were used,
 * with all hosts that were used in that way. `ports` are always written, because a rule without them would allow both
 * connect.ports and forward.ports.
 *
 * A tunnel or an upgrade needs a rule without `methods`. Such a rule allows http:// requests to the same port as well, so no
 * second rule is drafted for those.
 */
import { createHash } from 'node:crypto'
import { Document, type Scalar, type YAMLSeq } from 'yaml'
import { inTableOrder, type Method, methodProperties } from '../http/method.js'
import { parseIpAddress } from '../net/ip-address.js'
import { parsePorts, type PortRange, type PortSet, serializePorts } from '../net/ports.js'
import type { PortUse, Sightings } from './log-reader.js'

export interface DraftedRule {
  readonly name: string
  /** Names, canonical addresses, and `*.parent` for grouped names; sorted. */
  readonly hosts: readonly string[]
  readonly ports: PortSet
  /** Undefined for tunnels and upgrades. */
  readonly methods: readonly Method[] | undefined
}

export interface DraftOptions {
  /** The least number of names below one parent that become `*.parent`; without it, names are not grouped. */
  readonly groupFrom?: number | undefined
  /** Names of existing rules. */
  readonly taken?: Iterable<string>
  /** Whether rule names contain the hosts, so that separate drafts can be pasted into one file; default false. */
  readonly namesHosts?: boolean
}

/** The ways to use a port, in the order of their rules. */
const FORMS = ['tunnel', 'upgrade', 'http'] as const

interface Column {
  readonly form: (typeof FORMS)[number]
  readonly ports: PortSet
  readonly methods: readonly Method[]
  readonly hosts: string[]
}

/** @returns the rules in the order of the file; the same sightings give the same rules */
export function draftRules(sightings: Sightings, options: DraftOptions = {}): DraftedRule[] {
  const columns = new Map<string, Column>()
  for (const [host, uses] of sightings.hosts) {
    for (const { form, ports, methods } of waysOf(uses)) {
      const set = parsePorts(ports)
      const key = `${form} ${serializePorts(set)} ${methods.join(' ')}`
      const column = columns.get(key) ?? { form, ports: set, methods, hosts: [] }
      columns.set(key, column)
      column.hosts.push(host)
    }
  }
  const taken = new Set(options.taken)
  return [...columns.values()].sort(inReadingOrder).map(column => {
    const { ports, methods, hosts, form } = column
    const grouped = options.groupFrom === undefined ? hosts : groupSubdomains(hosts, options.groupFrom)
    const drafted = [...grouped].sort()
    const use = { form, ports, methods, hosts: drafted }
    return {
      name: freeName(options.namesHosts === true ? nameWithHosts(use) : nameOf(column), taken),
      hosts: drafted,
      ports,
      methods: form === 'http' ? methods : undefined,
    }
  })
}

interface Way {
  readonly form: Column['form']
  readonly methods: readonly Method[]
  readonly ports: number[]
}

/** The ports of one host by the way they were used, each port once. */
function waysOf(uses: ReadonlyMap<number, PortUse>): Way[] {
  const ways = new Map<string, Way>()
  for (const [port, use] of uses) {
    if (!use.tunnel && use.methods.size === 0) continue
    const form = use.tunnel ? 'tunnel' : use.upgrade ? 'upgrade' : 'http'
    const methods = form === 'http' ? inTableOrder([...use.methods].sort()) : []
    const key = `${form} ${methods.join(' ')}`
    const way = ways.get(key) ?? { form, methods, ports: [] }
    ways.set(key, way)
    way.ports.push(port)
  }
  return [...ways.values()]
}

function inReadingOrder(a: Column, b: Column): number {
  return (
    FORMS.indexOf(a.form) - FORMS.indexOf(b.form) ||
    comparePorts(a.ports, b.ports) ||
    compareTexts(a.methods.join(' '), b.methods.join(' '))
  )
}

/** Compares by the first port that differs; a prefix comes first. */
function comparePorts(a: PortSet, b: PortSet): number {
  for (const [i, range] of a.entries()) {
    const other = b[i]
    if (other === undefined) return 1
    const order = range.first - other.first || range.last - other.last
    if (order !== 0) return order
  }
  return a.length - b.length
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** The number of port ranges in a rule name. */
const MAX_RANGES = 3

function nameOf({ form, ports, methods }: Omit<Column, 'hosts'>): string {
  return nameOfUse(form === 'http' ? (methods.every(isSafe) ? 'http-read' : 'http-write') : form, form, ports)
}

function nameOfUse(use: string, form: Column['form'], ports: PortSet): string {
  const text = serializePorts(ports)
  if (form === 'tunnel' && text === '443') return 'https'
  if (form === 'http' && text === '80') return use
  const spelled = text.split(', ').slice(0, MAX_RANGES).join('-')
  return `${use}-${spelled}${ports.length > MAX_RANGES ? '-and-more' : ''}`
}

function isSafe(method: Method): boolean {
  return methodProperties(method).safe
}

/** The purpose of a rule, for its name. */
export interface RuleUse {
  readonly form: (typeof FORMS)[number]
  readonly ports: PortSet
  readonly methods: readonly Method[]
  readonly hosts: readonly string[]
  /** The address that its host resolves to, for a rule that allows that address. */
  readonly address?: string | undefined
}

/** The longest name of a rule. */
const MAX_NAME = 63
/** Hosts and methods that can be part of a name without ambiguity. */
const PLAIN_HOST = /^(?!\d+-)[a-z0-9.-]+$/
const PLAIN_METHOD = /^[A-Z]+$/

/**
 * A name that is unique to this use: `https-a_test`, `http-get-8080-a_test`. A use that a name cannot express without ambiguity
 * gets a digest at the end.
 */
export function nameWithHosts({ form, ports, methods, hosts, address }: RuleUse): string {
  const [host = ''] = hosts
  const [method = '', ...more] = methods
  const isOneMethod = form === 'http' && more.length === 0
  const use = isOneMethod
    ? nameOfUse(`http-${method.toLowerCase()}`, form, ports)
    : nameOf({ form, ports, methods })
  const where = [
    hosts.length === 1 ? host : `${hosts.length}-hosts`,
    ...(address === undefined ? [] : ['at', address]),
  ]
  const name = [use, ...where].join('-').replace(/[^a-z0-9-]/g, '_')
  const isPlain =
    hosts.length === 1 &&
    PLAIN_HOST.test(host) &&
    PLAIN_HOST.test(address ?? 'none') &&
    ports.every(({ first, last }) => first === last) &&
    ports.length === 1 &&
    (form !== 'http' || (isOneMethod && PLAIN_METHOD.test(method)))
  if (isPlain && name.length <= MAX_NAME) return name
  const digest = createHash('sha256')
    .update(JSON.stringify([form, ports, methods, hosts, address]))
    .digest('hex')
  return `${name.slice(0, MAX_NAME - DIGITS - 1)}-${digest.slice(0, DIGITS)}`
}

const DIGITS = 6

/** The name, with the first number that makes it unique if needed; it is added to `taken`. */
export function freeName(name: string, taken: Set<string>): string {
  let free = name
  for (let n = 2; taken.has(free); n++) free = `${name}-${n}`
  taken.add(free)
  return free
}

/** A short label before a country code: `co.uk`, `com.au`, `ac.jp`. */
const COUNTRY_REGISTRY = /^[^.]{1,3}\.[a-z]{2}$/

/**
 * Groups names below one domain into a wildcard. A wildcard allows names that were not observed, so grouping is optional, and it
 * never happens below a domain that looks like a public suffix: a single label, or one such as `co.uk`. The form of a name
 * does not reveal all public suffixes (`github.io` is one), so the result has to be reviewed.
 * @param hosts names and addresses; addresses are not grouped
 * @param least the least number of names directly below one parent that become `*.parent`
 * @returns each host, or a wildcard that matches it
 */
export function groupSubdomains(hosts: readonly string[], least: number): string[] {
  const children = new Map<string, number>()
  for (const host of hosts) {
    const parent = parentOf(host)
    if (parent !== undefined) children.set(parent, (children.get(parent) ?? 0) + 1)
  }
  const parents = new Set([...children].filter(([, count]) => count >= least).map(([parent]) => parent))
  const grouped = new Set<string>()
  for (const host of hosts) {
    const covering = ancestorsOf(host).filter(ancestor => parents.has(ancestor))
    // The shortest ancestor, because a wildcard matches at any depth.
    const widest = covering[covering.length - 1]
    grouped.add(widest === undefined ? host : `*.${widest}`)
  }
  return [...grouped]
}

/** The parent domain of a name, if names may be grouped below it. */
function parentOf(host: string): string | undefined {
  return isAddress(host) ? undefined : ancestorsOf(host)[0]
}

/** The domains above a name below which names may be grouped, the longest first. */
function ancestorsOf(host: string): string[] {
  if (isAddress(host)) return []
  const ancestors: string[] = []
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const ancestor = host.slice(dot + 1)
    if (!ancestor.includes('.') || COUNTRY_REGISTRY.test(ancestor)) break
    ancestors.push(ancestor)
  }
  return ancestors
}

function isAddress(host: string): boolean {
  return parseIpAddress(host) !== undefined
}

/** A rule to serialize; undefined keys are left out. */
export interface WrittenRule {
  readonly name: string
  /** Host patterns as parseHostPattern reads them. */
  readonly hosts?: readonly string[] | undefined
  readonly ports?: PortSet | undefined
  readonly methods?: readonly Method[] | undefined
  /** CIDR blocks as parseCidr reads them. */
  readonly addresses?: readonly string[] | undefined
  readonly addressesOnly?: boolean | undefined
}

/**
 * Serializes rules as the `rules` section of a configuration.
 * @returns YAML that is a configuration with `version: 1` before it, and with `methods.extra` if rules list extension methods;
 *   text is quoted where YAML would read it as something else
 */
export function serializeRules(rules: readonly WrittenRule[]): string {
  const document = new Document({
    rules: Object.fromEntries(rules.map(rule => [rule.name, sectionOf(rule)])),
  })
  for (const { name, hosts, ports, methods, addresses } of rules) {
    const listAt = (key: string): YAMLSeq => document.getIn(['rules', name, key], true) as YAMLSeq
    if (hosts !== undefined) {
      const hostList = listAt('hosts') as YAMLSeq<Scalar<string>>
      for (const host of hostList.items) {
        if (host.value.startsWith('*.')) host.comment = ` check: every name below ${host.value.slice(2)}`
      }
      setInline(hostList, hosts.length === 1 && !hosts[0]?.startsWith('*.'))
    }
    for (const [key, list] of Object.entries({ ports, methods, addresses })) {
      if (list !== undefined) setInline(listAt(key), true)
    }
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** As `[443]` on one line, or with one item per line. */
function setInline(list: YAMLSeq, inline: boolean): void {
  list.flow = inline
}

function sectionOf({ hosts, ports, methods, addresses, addressesOnly }: WrittenRule) {
  return {
    ...(hosts === undefined ? {} : { hosts }),
    ...(ports === undefined ? {} : { ports: portList(ports) }),
    ...(methods === undefined ? {} : { methods }),
    ...(addresses === undefined ? {} : { addresses }),
    ...(addressesOnly === true ? { addresses_only: true } : {}),
  }
}

/** The same without the line `rules:`, to paste below an existing one. */
export function serializeRuleLines(rules: readonly WrittenRule[]): string {
  return serializeRules(rules).replace(/^rules:.*\n/, '')
}

/** Ports as parsePorts reads them. */
function portList(ports: PortSet): (number | string)[] {
  return ports.flatMap(rangeItems)
}

function rangeItems({ first, last }: PortRange): (number | string)[] {
  if (first === last) return [first]
  return last === first + 1 ? [first, last] : [`${first}-${last}`]
}
