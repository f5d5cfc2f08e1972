/**
 * Resolves names with the DNS servers of the configuration: IPv4 and IPv6 in parallel, without /etc/hosts and search
 * domains.
 *
 * The addresses of one family are a valid answer. If the other family failed or does not answer in time, the answer is
 * used but not cached. (RFC 8305 §3 waits 50 ms for the second family and uses later addresses during the connection
 * attempts; here one permit contains all addresses, so the wait is longer.) Half an answer is never "not found".
 */
import { Resolver } from 'node:dns/promises'
import { type DnsServer, serializeDnsServer } from '../config/dns-server.js'
import { errorCode, ProxyError } from '../errors.js'
import { type Descriptors, nextDescriptor, noDescriptor } from '../limits/descriptors.js'
import { isNotFound, dnsTimeout } from '../upstream/failures.js'
import type { Answer, NameSource } from './lookup.js'

export interface DnsServersOptions {
  /** At least one; each is asked when the previous one does not answer. */
  readonly servers: readonly DnsServer[]
  /** The time limit of the requests; the lookup ends a little earlier, with an answer or a timeout. */
  readonly timeoutMs: number
  readonly descriptors: Descriptors
}

/** How many names are resolved at a time. Each needs sockets, and keeps them until its end if no server answers. */
export const NAMES_AT_ONCE = 64

/**
 * The number of file descriptors that lookups may need: each name is queried for two families at every server.
 * @param lookups the maximum number of names, including waiting ones
 */
export function neededSockets(servers: readonly DnsServer[], lookups: number): number {
  return Math.min(NAMES_AT_ONCE, lookups) * 2 * stepsFor(servers)
}

/** The fraction of the time limit after which the lookup ends, so that its result still reaches the request. */
const END = 0.9
/** How long to wait for the second family after the first has answered. */
const OTHER_FAMILY_MS = 500
/** The longest time without an answer after which the next server is asked. */
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
   * @param name queried without changes
   * @param wanted ends the lookup and closes its sockets when it aborts
   * @throws ProxyError dns_timeout when no server answered; the reason of `wanted`; otherwise the resolver's error,
   *   with a `code`
   */
  readonly lookup = async (name: string, wanted?: AbortSignal): Promise<Answer> => {
    if (this.#closed) throw stopping()
    const controller = new AbortController()
    wanted?.addEventListener('abort', () => controller.abort(wanted.reason), { once: true })
    const { signal } = controller
    const timedOut = (): void => controller.abort(dnsTimeout(name))
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

  /** Ends all running lookups; later ones fail. */
  close(): void {
    this.#closed = true
    for (const controller of this.#running) controller.abort(stopping())
  }

  /** For later names: the timeout of a server that is down is spent only once and not for every name. */
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
 * One question, a name and a type, for several DNS servers.
 *
 * A server that does not answer for a while is not given up: the next one is asked in addition, and the first answer
 * from any of them counts. Each server is asked a second time, as a datagram can be lost, and then every few seconds; a
 * server that has reported a failure is not asked again. That a name or a record does not exist is an answer (RFC 2308
 * §2).
 *
 * Each attempt uses a resolver of its own. A long-lived resolver adapts its timeouts to what it has measured, gives up
 * long before its configured timeout, may cache answers longer than allowed, and can only cancel all of its queries at
 * once.
 */
export interface DnsQuestion {
  readonly name: string
  readonly type: 'A' | 'AAAA'
  /** In the order in which they are asked, at least one. */
  readonly servers: readonly DnsServer[]
  /** Milliseconds without an answer after which the next server is asked as well. */
  readonly stepMs: number
  /** Ends the query; otherwise it waits without limit for servers that do not answer. */
  readonly signal: AbortSignal
  /** Called for a server that did not answer in time, or cannot be reached. */
  readonly silent: (server: DnsServer) => void
  /** A socket for which only reserved descriptors are left is not opened. */
  readonly descriptors: Descriptors
}

export interface AddressRecord {
  readonly address: string
  /** Seconds: the lowest of the record and the aliases that led to it. Node omits it after the 256th record. */
  readonly ttl: number | undefined
}

/**
 * @returns the records; none when the name or the record does not exist
 * @throws the last server's error when all have failed, EMFILE when no descriptor is left for a socket; the signal's
 *   reason when it aborts
 */
export function askServers(question: DnsQuestion): Promise<readonly AddressRecord[]> {
  return new Promise((resolve, reject) => {
    new DnsQuery(question, resolve, reject).next()
  })
}

/** How many times the list of servers is tried. */
const ROUNDS = 2

/** The longest timeout that Node's resolver supports. */
const LONGEST_WAIT_MS = 5000
/** The resolver's code for a timeout. Only the signal decides how long the query may take. */
const TIMED_OUT = 'ETIMEOUT'
/** The resolver's code for every failure to send. */
const UNREACHABLE = 'ECONNREFUSED'

/** The number of attempts until the list of servers has been tried ROUNDS times. */
export function stepsFor(servers: readonly DnsServer[]): number {
  return servers.length * ROUNDS
}

class DnsQuery {
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

  /** Asks the next server, if there is another one. */
  next(): void {
    clearTimeout(this.#step)
    const [server, ...waiting] = this.#waiting
    if (server === undefined) return
    this.#waiting = waiting
    this.#latest = this.#ask(server)
    if (this.#waiting.length > 0) this.#step = setTimeout(() => this.#silent(server), this.#question.stepMs)
  }

  /** Starts an attempt, for which the resolver opens a socket. @returns undefined when no descriptor is left for it */
  #ask(server: DnsServer): Resolver | undefined {
    const { name, type, descriptors } = this.#question
    if (descriptors.isKept(nextDescriptor())) {
      // Further servers could not be asked either; open attempts may still be answered.
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
    if (errorCode(error) === TIMED_OUT) {
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
