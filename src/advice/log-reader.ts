/**
 * Reads events back from the lines of the log.
 *
 * The target of a line is accepted only if it is a host and a port by the grammar of requests: logs are passed around, and
 * hosts read from them may end up in a configuration.
 */
import { isName } from '../config/fields.js'
import { type Host, parseHost } from '../http/authority.js'
import { isExtensionMethod, isMethod, type Method } from '../http/method.js'
import { classifyAddress, metadataServiceOf } from '../net/address-class.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'

/** The target of a tunnel or a forwarded request; addresses are canonical, names in lower case. */
export interface LoggedTarget {
  readonly form: 'connect' | 'forward'
  readonly method: Method
  readonly host: Host
  readonly port: number
}

/** The decision or the close event of an exchange; all other events are `other`. */
export type LogEvent =
  | {
      readonly event: 'decision'
      readonly client: string | undefined
      /** Absent when the exchange is neither a tunnel nor a forwarded request. */
      readonly target: LoggedTarget | undefined
      readonly decision: 'allow' | 'deny' | 'would_deny'
      readonly reason: string | undefined
      readonly rule: string | undefined
    }
  | {
      readonly event: 'close'
      readonly client: string | undefined
      readonly target: LoggedTarget | undefined
      readonly status: number | undefined
      /** `ip:port` of the target, IPv6 in brackets; absent without a connection, or with one through a parent proxy. */
      readonly address: string | undefined
    }
  | { readonly event: 'other' }

const DECISIONS = ['allow', 'deny', 'would_deny'] as const

/** @returns undefined for a line that is not an event, or whose target is invalid */
export function parseLogLine(line: string): LogEvent | undefined {
  const fields = parseObject(line)
  if (fields === undefined || typeof fields['event'] !== 'string') return undefined
  const { event } = fields
  if (event !== 'decision' && event !== 'close') return { event: 'other' }
  const { kind } = fields
  const aimed = kind === 'connect' || kind === 'forward'
  const target = aimed ? parseLoggedTarget(kind, fields) : undefined
  if (aimed && target === undefined) return undefined
  const client = nameOf(fields['client'])
  if (event === 'close') {
    const { status } = fields
    return {
      event,
      client,
      target,
      status: typeof status === 'number' ? status : undefined,
      address: fields['parent'] === undefined ? textOf(fields['address']) : undefined,
    }
  }
  const decision = DECISIONS.find(known => known === fields['decision'])
  if (decision === undefined) return undefined
  return {
    event,
    client,
    target,
    decision,
    reason: textOf(fields['reason']),
    rule: nameOf(fields['rule']),
  }
}

function parseObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A valid name of a client or a rule, which is copied into messages. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' && isName(value) ? value : undefined
}

/** @returns undefined for an invalid target */
export function parseLoggedTarget(
  form: 'connect' | 'forward',
  { method, host, port }: Readonly<Record<string, unknown>>,
): LoggedTarget | undefined {
  if (typeof method !== 'string' || !(isMethod(method) || isExtensionMethod(method))) return undefined
  if ((method === 'CONNECT') !== (form === 'connect')) return undefined
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65535) return undefined
  const parsed = typeof host === 'string' ? loggedHost(host) : undefined
  return parsed === undefined ? undefined : { form, method, host: parsed, port }
}

/** The log has IPv6 without brackets. A mapped IPv4 address is the same as its IPv4 address, as it is to rules. */
function loggedHost(text: string): Host | undefined {
  const address = parseIpAddress(text)
  const ip = address === undefined ? undefined : unmapIpv4(address)
  if (ip !== undefined) return { kind: ip.family === 6 ? 'ipv6' : 'ipv4', name: ip.text }
  try {
    const host = parseHost(text)
    return host.kind === 'name' ? host : undefined
  } catch {
    return undefined
  }
}

/** The longest line in characters; an event has a few hundred. */
const MAX_LINE_LENGTH = 1024 * 1024

/**
 * Splits a stream of any length into lines, and calls back for each line that is not empty. At most one line of a mebibyte is
 * in memory.
 *
 * @param onLine gets the line without its line end, or undefined for a line that is too long
 * @throws the error of the stream
 */
export async function readLogLines(
  chunks: AsyncIterable<Uint8Array>,
  onLine: (line: string | undefined) => void,
): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  let tooLong = false
  const take = (line: string): void => {
    if (tooLong || line.length > MAX_LINE_LENGTH) onLine(undefined)
    else if (line !== '' && line !== '\r') onLine(line)
    tooLong = false
  }
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
    if (rest.length <= MAX_LINE_LENGTH) continue
    tooLong = true
    rest = ''
  }
  take(rest + decoder.decode())
}

/** The number of names kept for messages. */
const MAX_NAMES = 10

/** The first few names that were added, and the number of all additions. */
export class NameSample {
  readonly #names = new Set<string>()
  #count = 0
  #more = false

  get count(): number {
    return this.#count
  }

  /** The names for a message. */
  get text(): string {
    return [...this.#names, ...(this.#more ? ['...'] : [])].join(', ')
  }

  add(name: string): void {
    this.#count += 1
    if (this.#names.size < MAX_NAMES) this.#names.add(name)
    else this.#more ||= !this.#names.has(name)
  }
}

/**
 * A summary of a log: the targets that passed, and counts of requests that drafted rules do not cover.
 */
export class LogSummary {
  /** Targets that passed: allowed by a rule, or because of `mode: observe`. */
  readonly passed = new Sightings()
  /** Hosts that were refused for an address that is not public; no drafted rule allows them. */
  readonly addressRefused = new NameSample()
  /** Metadata services, by address or name, that were refused or would be; a drafted rule never allows one. */
  readonly metadataRefused = new NameSample()
  /** Hosts that were reached at an address that is not public, because a rule has it in `addresses`. */
  readonly notPublic = new NameSample()
  /** All clients in the log. */
  readonly clients = new NameSample()
  /** The number of lines that are not empty. */
  lines = 0
  noEvents = 0
  /** The number of decisions that count. */
  decisions = 0
  /** The number of tunnels and forwarded requests that were denied for a reason other than their address, as above. */
  denied = 0
  readonly #client: string | undefined

  /** @param client only events of this client count; undefined for all */
  constructor(client?: string) {
    this.#client = client
  }

  /** @param line undefined for a line that is too long */
  add(line: string | undefined): void {
    this.lines += 1
    const event = line === undefined ? undefined : parseLogLine(line)
    if (event === undefined) this.noEvents += 1
    if (event === undefined || event.event === 'other') return
    if (event.client !== undefined) this.clients.add(event.client)
    if (this.#client !== undefined && event.client !== this.#client) return
    if (event.event === 'close') {
      if (event.target !== undefined) this.#close(event.target, event.status, event.address)
      return
    }
    this.decisions += 1
    if (event.target === undefined) return
    if (event.decision !== 'allow' && metadataServiceOf(event.target.host.name) !== undefined) {
      this.metadataRefused.add(event.target.host.name)
      return
    }
    if (event.decision === 'deny') {
      if (event.reason === 'address') this.addressRefused.add(event.target.host.name)
      else this.denied += 1
      return
    }
    // The client left before the decision, so nothing passed.
    if (event.decision === 'allow' && event.reason === 'client_gone') return
    this.passed.add(event.target)
  }

  #close(target: LoggedTarget, status: number | undefined, address: string | undefined): void {
    if (target.form === 'forward' && status === 101) this.passed.addUpgrade(target)
    if (address !== undefined && !isPublic(address)) this.notPublic.add(target.host.name)
  }
}

/** @param address `ip:port`, IPv6 in brackets */
function isPublic(address: string): boolean {
  const ip = parseIpAddress(address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, ''))
  return ip !== undefined && classifyAddress(ip) === 'global'
}

/** How one port of one host was used. */
export interface PortUse {
  tunnel: boolean
  /** Whether a forwarded request switched protocols; methods are not visible after that. */
  upgrade: boolean
  /** Methods of forwarded requests. */
  readonly methods: Set<Method>
}

/**
 * The targets of the observed requests: for every host its ports, and how each port was used. Memory depends on the number of
 * different targets, not on the number of requests.
 */
export class Sightings {
  readonly #hosts = new Map<string, Map<number, PortUse>>()

  /** By the canonical host, IPv6 without brackets, then by port. */
  get hosts(): ReadonlyMap<string, ReadonlyMap<number, PortUse>> {
    return this.#hosts
  }

  add({ form, method, host, port }: LoggedTarget): void {
    const use = this.#use(host, port)
    if (form === 'connect') use.tunnel = true
    else use.methods.add(method)
  }

  /** A forwarded request to this target was upgraded. Without a request there is no sighting. */
  addUpgrade({ host, port }: LoggedTarget): void {
    this.#use(host, port).upgrade = true
  }

  #use({ name }: Host, port: number): PortUse {
    const ports = this.#hosts.get(name) ?? new Map<number, PortUse>()
    this.#hosts.set(name, ports)
    const use = ports.get(port) ?? { tunnel: false, upgrade: false, methods: new Set<Method>() }
    ports.set(port, use)
    return use
  }
}
