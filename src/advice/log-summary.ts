/**
 * A log in numbers and targets: what passed, and what of it or beside it no drafted rule can answer for.
 */
import { classifyAddress } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'
import { type LoggedTarget, parseLogLine } from './log-event.js'
import { Sightings } from './sightings.js'

/** Names kept for messages; a log may hold any number. */
const MAX_NAMES = 10

/** Some names, in the order they came up, and how often anything was noted. */
export class Noted {
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

export class LogSummary {
  /** What passed: allowed, or denied but for `mode: observe`. */
  readonly passed = new Sightings()
  /** Hosts refused for an address that is not public: no rule drafted here lifts that. */
  readonly addressRefused = new Noted()
  /** Hosts that were reached at an address that is not public, which some rule has in `addresses`. */
  readonly notPublic = new Noted()
  /** Clients in the events, whichever is asked for. */
  readonly clients = new Noted()
  /** Lines that are not empty. */
  lines = 0
  noEvents = 0
  /** Decisions of the client asked for. */
  decisions = 0
  /** Tunnels and forwarded requests denied for another reason than their address. */
  denied = 0
  readonly #client: string | undefined

  /** @param client the client whose events alone count; undefined for all */
  constructor(client?: string) {
    this.#client = client
  }

  /** @param line undefined for one that is too long to be an event */
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
    if (event.decision === 'deny') {
      if (event.reason === 'address') this.addressRefused.add(event.target.host.name)
      else this.denied += 1
      return
    }
    // The client left before there was a decision: nothing passed.
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
