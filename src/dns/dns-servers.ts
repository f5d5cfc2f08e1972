/**
 * Names to addresses by the DNS servers of the configuration: IPv4 and IPv6 at once, without /etc/hosts and search
 * domains.
 *
 * What either family has is an answer. When the other failed, or is silent while this one is there, the answer is
 * used but does not hold (RFC 8305 §3 waits for the second family 50 ms and takes later addresses up on the way; one
 * permit holds all of ours, so that the wait is longer). Half an answer is never "not found".
 */
import { Resolver } from 'node:dns/promises'
import { type DnsServer, serializeDnsServer } from '../config/dns-server.js'
import { errorCode, ProxyError } from '../errors.js'
import { type Descriptors, nextDescriptor, noDescriptor } from '../limits/descriptors.js'
import { isNotFound, unanswered } from '../upstream/failures.js'
import type { Answer, NameSource } from './lookup.js'

export interface DnsServersOptions {
  /** At least one; in the order in which they are asked until one is silent. */
  readonly servers: readonly DnsServer[]
  /** The longest wait of those who ask; the answer, or that there is none, comes a little earlier. */
  readonly timeoutMs: number
  readonly descriptors: Descriptors
}

/** How many names are asked for at a time. Each has its sockets, and one that nobody answers for keeps them to its end. */
export const NAMES_AT_ONCE = 64

/**
 * The file descriptors that lookups may need: each name is asked for in two families, each time that a server is asked.
 * @param lookups how many there may be, waiting ones among them
 */
export function neededSockets(servers: readonly DnsServer[], lookups: number): number {
  return Math.min(NAMES_AT_ONCE, lookups) * 2 * stepsFor(servers)
}

/** The part of the time-out after which what has come is the answer: those who ask must still be there to take it. */
const END = 0.9
/** How long the second family is waited for once the first is there. */
const OTHER_FAMILY_MS = 500
/** The longest silence after which the next server is asked. */
const LONGEST_STEP_MS = 1000

export class DnsServers implements NameSource {
  readonly endsAtAbort = true
  readonly #endMs: number
  readonly #stepMs: number
  readonly #descriptors: Descriptors
  readonly #running = new Set<AbortController>()
  #servers: readonly DnsServer[]
  #closed = false

  constructor({ servers, timeoutMs, descriptors }: DnsServersOptions) {
    this.#descriptors = descriptors
    this.#servers = servers
    this.#endMs = timeoutMs * END
    this.#stepMs = Math.min(LONGEST_STEP_MS, this.#endMs / stepsFor(servers))
  }

  /**
   * @param name asked for as it is
   * @param wanted ends it, with all of its sockets
   * @throws ProxyError dns_timeout when every server was silent; the reason of `wanted`; else the resolver's error, with
   *   a `code`
   */
  readonly lookup = async (name: string, wanted?: AbortSignal): Promise<Answer> => {
    if (this.#closed) throw stopping()
    const controller = new AbortController()
    wanted?.addEventListener('abort', () => controller.abort(wanted.reason), { once: true })
    const { signal } = controller
    const timedOut = (): void => controller.abort(unanswered(name))
    const timers = [setTimeout(timedOut, this.#endMs)]
    this.#running.add(controller)
    const ask = async (type: DnsQuestion['type']): Promise<readonly AddressRecord[]> => {
      const records = await askServers({
        name,
        type,
        servers: this.#servers,
        stepMs: this.#stepMs,
        signal,
        silent: this.#askLast,
        descriptors: this.#descriptors,
      })
      if (records.length > 0) timers.push(setTimeout(timedOut, OTHER_FAMILY_MS))
      return records
    }
    const families = await Promise.allSettled([ask('AAAA'), ask('A')])
    this.#running.delete(controller)
    for (const timer of timers) clearTimeout(timer)
    return combine(families)
  }

  /** Ends every lookup that is under way; those that come later fail. */
  close(): void {
    this.#closed = true
    for (const controller of this.#running) controller.abort(stopping())
  }

  /** From the next name on: a server that is gone costs its silence once and not for every name. */
  readonly #askLast = (server: DnsServer): void => {
    this.#servers = [...this.#servers.filter(other => other !== server), server]
  }
}

function combine(families: readonly PromiseSettledResult<readonly AddressRecord[]>[]): Answer {
  const records = families.flatMap(family => (family.status === 'fulfilled' ? family.value : []))
  const failed = families.find(family => family.status === 'rejected')
  if (failed !== undefined && records.length === 0) throw failed.reason
  const ttls = failed === undefined ? records.flatMap(({ ttl }) => ttl ?? []) : [0]
  return {
    addresses: records.map(({ address }) => address),
    ttlMs: ttls.length === 0 ? undefined : Math.min(...ttls) * 1000,
  }
}

function stopping(): ProxyError {
  return new ProxyError('dns_error', 'the proxy is stopping')
}

/**
 * One question, a name and a type, to several DNS servers.
 *
 * A server that is silent for a while is not given up: the next is asked beside it, and the first answer counts,
 * whoever gives it. Each is asked a second time, as a datagram can be lost, and then every few seconds; one that has
 * said that it failed is not asked again. That there is no such name, or no such record, is an answer (RFC 2308 §2).
 *
 * Every time it asks it does so with a resolver of its own. One that lives longer adapts its time-outs to what it has
 * measured, giving up long before it was told to, may keep answers longer than we would, and can only end all of its
 * questions at once.
 */
export interface DnsQuestion {
  readonly name: string
  readonly type: 'A' | 'AAAA'
  /** In the order in which they are asked, at least one. */
  readonly servers: readonly DnsServer[]
  /** How long a server may be silent before the next is asked too. */
  readonly stepMs: number
  /** Ends it; nothing else ends the wait for servers that are all silent. */
  readonly signal: AbortSignal
  /** Told of a server that was silent, or that can not be reached. */
  readonly silent: (server: DnsServer) => void
  /** A socket that would get one of the last is not opened. */
  readonly descriptors: Descriptors
}

export interface AddressRecord {
  readonly address: string
  /** Seconds: the shortest of the record and of the aliases that led to it. Node leaves it out behind the 256th record. */
  readonly ttl: number | undefined
}

/**
 * @returns the records, none when there is no such name or record
 * @throws the last server's error when all have failed, EMFILE when there is no descriptor for a socket; the signal's
 *   reason when it aborts
 */
export function askServers(question: DnsQuestion): Promise<readonly AddressRecord[]> {
  return new Promise((resolve, reject) => {
    new Asking(question, resolve, reject).next()
  })
}

/** How often the servers are gone through. */
const ROUNDS = 2

/** What the resolver cuts a longer time-out to. */
const LONGEST_WAIT_MS = 5000
/** What it says then. The signal decides whether that was too long. */
const WAITED = 'ETIMEOUT'
/** What it says of every failure to send. */
const UNREACHABLE = 'ECONNREFUSED'

/** The number of steps until all have been gone through. */
export function stepsFor(servers: readonly DnsServer[]): number {
  return servers.length * ROUNDS
}

class Asking {
  readonly #question: DnsQuestion
  readonly #resolve: (records: readonly AddressRecord[]) => void
  readonly #reject: (error: unknown) => void
  readonly #open = new Set<Resolver>()
  #waiting: readonly DnsServer[]
  #latest: Resolver | undefined
  #step: NodeJS.Timeout | undefined
  readonly #onAbort = (): void => {
    this.#end()
    this.#reject(this.#question.signal.reason)
  }

  constructor(
    question: DnsQuestion,
    resolve: (records: readonly AddressRecord[]) => void,
    reject: (error: unknown) => void,
  ) {
    this.#question = question
    this.#resolve = resolve
    this.#reject = reject
    this.#waiting = Array.from({ length: ROUNDS }, () => question.servers).flat()
    question.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (question.signal.aborted) this.#onAbort()
  }

  /** Asks the next server, if there is one. */
  next(): void {
    clearTimeout(this.#step)
    const [server, ...waiting] = this.#waiting
    if (server === undefined) return
    this.#waiting = waiting
    this.#latest = this.#ask(server)
    if (this.#waiting.length > 0) this.#step = setTimeout(() => this.#silent(server), this.#question.stepMs)
  }

  /** The resolver opens its socket by itself, at once. @returns undefined when there is no descriptor for it */
  #ask(server: DnsServer): Resolver | undefined {
    const { name, type, descriptors } = this.#question
    if (descriptors.isKept(nextDescriptor())) {
      // The others would have none either; what is open may still be answered.
      this.#waiting = []
      if (this.#open.size === 0) {
        this.#end()
        this.#reject(noDescriptor())
      }
      return undefined
    }
    const resolver = new Resolver({ timeout: LONGEST_WAIT_MS, tries: 1 })
    resolver.setServers([serializeDnsServer(server)])
    this.#open.add(resolver)
    const asked =
      type === 'A' ? resolver.resolve4(name, { ttl: true }) : resolver.resolve6(name, { ttl: true })
    asked.then(
      records => this.#answered(resolver, records),
      (error: unknown) => {
        if (isNotFound(error)) this.#answered(resolver, [])
        else this.#failed(resolver, server, error)
      },
    )
    return resolver
  }

  #silent(server: DnsServer): void {
    this.#question.silent(server)
    this.next()
  }

  #answered(resolver: Resolver, records: readonly AddressRecord[]): void {
    if (!this.#open.delete(resolver)) return
    this.#end()
    this.#resolve(records)
  }

  #failed(resolver: Resolver, server: DnsServer, error: unknown): void {
    if (!this.#open.delete(resolver)) return
    if (errorCode(error) === WAITED) {
      this.#ask(server)
      return
    }
    if (errorCode(error) === UNREACHABLE) this.#question.silent(server)
    this.#waiting = this.#waiting.filter(other => other !== server)
    if (this.#waiting.length === 0 && this.#open.size === 0) {
      this.#end()
      this.#reject(error)
    } else if (resolver === this.#latest) this.next()
  }

  #end(): void {
    clearTimeout(this.#step)
    this.#question.signal.removeEventListener('abort', this.#onAbort)
    this.#waiting = []
    const open = [...this.#open]
    this.#open.clear()
    for (const resolver of open) resolver.cancel()
  }
}
