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
import type { Method } from '../http/method.js'
import { inTableOrder, methodProperties } from '../http/method.js'
import { parsePorts, type PortSet, serializePorts } from '../net/ports.js'
import { groupSubdomains } from './group-subdomains.js'
import type { PortUse, Sightings } from './sightings.js'

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
    return {
      name: freeName(nameOf(column), taken),
      hosts: [...grouped].sort(),
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

function nameOf({ form, ports, methods }: Column): string {
  const text = serializePorts(ports)
  if (form === 'tunnel' && text === '443') return 'https'
  const use = form === 'http' ? (methods.every(isSafe) ? 'http-read' : 'http-write') : form
  if (form === 'http' && text === '80') return use
  const spelled = text.split(', ').slice(0, MAX_RANGES).join('-')
  return `${use}-${spelled}${ports.length > MAX_RANGES ? '-and-more' : ''}`
}

function isSafe(method: Method): boolean {
  return methodProperties(method).safe
}

/** The name itself, or with the first number behind it that makes it one of its own; taken from then on. */
function freeName(name: string, taken: Set<string>): string {
  let free = name
  for (let n = 2; taken.has(free); n++) free = `${name}-${n}`
  taken.add(free)
  return free
}
