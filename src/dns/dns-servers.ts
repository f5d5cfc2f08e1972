/**
 * Names to addresses by the DNS servers of the configuration: IPv4 and IPv6 at once, without /etc/hosts and search
 * domains.
 *
 * What either family has is an answer. When the other failed, or is silent while this one is there, the answer is
 * used but does not hold (RFC 8305 §3 waits for the second family 50 ms and takes later addresses up on the way; one
 * permit holds all of ours, so that the wait is longer). Half an answer is never "not found".
 */
import type { DnsServer } from '../config/dns-server.js'
import { ProxyError } from '../errors.js'
import type { Descriptors } from '../limits/descriptors.js'
import { type AddressRecord, askServers, type DnsQuestion, stepsFor } from './dns-question.js'
import { unanswered } from '../upstream/failures.js'
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
