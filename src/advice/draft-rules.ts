/**
 * From what was seen to the rules that allow it, and nothing that was not seen.
 *
 * A rule allows each of its ports for each of its hosts, and each of its methods on each of those ports; so one rule
 * is drafted for each way in which ports were used, and holds every host that was used in that way. `ports` are always
 * written: a rule without them has both connect.ports and forward.ports.
 *
 * A rule without `methods` is the least that allows a tunnel or a change of protocol. It allows http:// requests to
 * the same port as well, so no second rule is drafted for those.
 */
import { createHash } from 'node:crypto'
import { Document, type Scalar, type YAMLSeq } from 'yaml'
import { inTableOrder, type Method, methodProperties } from '../http/method.js'
import { parseIpAddress } from '../net/ip-address.js'
import { parsePorts, type PortRange, type PortSet, serializePorts } from '../net/ports.js'
import type { PortUse, Sightings } from './log-reader.js'

export interface DraftedRule {
  readonly name: string
  /** Names, canonical addresses, and `*.` with a parent where names were grouped; sorted. */
  readonly hosts: readonly string[]
  readonly ports: PortSet
  /** Undefined where tunnels or upgrades were seen. */
  readonly methods: readonly Method[] | undefined
}

export interface DraftOptions {
  /** From how many names below one parent on `*.parent` stands for them; absent, never. */
  readonly groupFrom?: number | undefined
  /** Names that rules have already. */
  readonly taken?: Iterable<string>
  /** Whether names tell the hosts too, so that drafts made apart from each other can stand in one file; default false. */
  readonly namesHosts?: boolean
}

/** Ways to use a port, in the order in which their rules are written. */
const FORMS = ['tunnel', 'upgrade', 'http'] as const

interface Column {
  readonly form: (typeof FORMS)[number]
  readonly ports: PortSet
  readonly methods: readonly Method[]
  readonly hosts: string[]
}

/** @returns the rules in the order to write them in; the same sightings give the same rules */
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

/** The ports of one host, by the way they were used; each port once. */
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

/** By the first port in which they differ; the shorter list first. */
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

/** Port ranges that a name spells out. */
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

/** What a rule is for, as its name tells it. */
export interface RuleUse {
  readonly form: (typeof FORMS)[number]
  readonly ports: PortSet
  readonly methods: readonly Method[]
  readonly hosts: readonly string[]
  /** The address that its hosts resolve to, where the rule is about that. */
  readonly address?: string | undefined
}

/** As names of rules may be. */
const MAX_NAME = 63
/** Hosts and methods that a name spells out without becoming that of another host or method. */
const PLAIN_HOST = /^(?!\d+-)[a-z0-9.-]+$/
const PLAIN_METHOD = /^[A-Z]+$/

/**
 * A name that a rule for another use does not have: `https-a_test`, `http-get-8080-a_test`. What does not fit into one in
 * full has a digest at its end.
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

/** The name itself, or with the first number behind it that makes it one of its own; taken from then on. */
export function freeName(name: string, taken: Set<string>): string {
  let free = name
  for (let n = 2; taken.has(free); n++) free = `${name}-${n}`
  taken.add(free)
  return free
}

/** A short label before the two letters of a country: `co.uk`, `com.au`, `ac.jp`. */
const COUNTRY_REGISTRY = /^[^.]{1,3}\.[a-z]{2}$/

/**
 * Many names below one domain as one wildcard. It allows names that nobody has seen, so it is done only when asked for,
 * and never where the parent looks like one under which strangers register: a single label, or the likes of `co.uk`.
 * Which domains are such (`github.io` is, too) no rule of form can tell: whoever asks has to look at the outcome.
 * @param hosts names and addresses; addresses stay as they are
 * @param least names directly below one parent, from which on they become `*.parent`
 * @returns every host, or a wildcard that matches it
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
    // The shortest: a wildcard matches at any depth below.
    const widest = covering[covering.length - 1]
    grouped.add(widest === undefined ? host : `*.${widest}`)
  }
  return [...grouped]
}

/** The domain directly above a name, when it may be grouped under. */
function parentOf(host: string): string | undefined {
  return isAddress(host) ? undefined : ancestorsOf(host)[0]
}

/** Domains above a name that may be grouped under, from the longest. */
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

/** A rule to be written; what is undefined is left out. */
export interface WrittenRule {
  readonly name: string
  /** As parseHostPattern reads them. */
  readonly hosts?: readonly string[] | undefined
  readonly ports?: PortSet | undefined
  readonly methods?: readonly Method[] | undefined
  /** Blocks, as parseCidr reads them. */
  readonly addresses?: readonly string[] | undefined
  readonly addressesOnly?: boolean | undefined
}

/**
 * Drafted rules as the text of a configuration's `rules` section.
 * @returns YAML that is a configuration once `version: 1` stands before it, and `methods.extra` where rules list methods of
 *   that kind; what it holds is quoted where YAML would
 *   read it as anything but text
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

/** `[443]` in one line, or one item a line. */
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

/** The same without the line `rules:`, to be put below one that is there. */
export function serializeRuleLines(rules: readonly WrittenRule[]): string {
  return serializeRules(rules).replace(/^rules:.*\n/, '')
}

/** As parsePorts reads them. */
function portList(ports: PortSet): (number | string)[] {
  return ports.flatMap(rangeItems)
}

function rangeItems({ first, last }: PortRange): (number | string)[] {
  if (first === last) return [first]
  return last === first + 1 ? [first, last] : [`${first}-${last}`]
}
