/**
 * Names to addresses for those who dial, with one time limit. A name that DNS does not know is 502; only our own
 * clock makes 504 (RFC 9209 §2.3.1, §2.3.2).
 */
import type { Config } from '../config/schema.js'
import { errorCode, ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import type { Descriptors } from '../limits/descriptors.js'
import { FairQueue, type QueueLimits } from '../limits/fair-queue.js'
import { type LimitName, limitReached } from '../limits/refusals.js'
import { isNotFound, outOfDescriptors, unanswered, unasked } from '../upstream/failures.js'
import { type AskedName, DnsCache } from './dns-cache.js'
import { DnsServers, NAMES_AT_ONCE } from './dns-servers.js'
import {
  type AddressLookup,
  type Answer,
  type NameSource,
  systemLookup,
  systemLookupsAtOnce,
  untimed,
} from './lookup.js'
import { systemNames, type SystemNamesOptions } from './system-names.js'

/** Whoever waits for the addresses of a name. Both are looked at only when there is something to wait for. */
export interface Asker {
  /** Ends the wait. */
  readonly signal: CancelSignal
  /** What limits for each client are counted under; absent for names that the configuration holds. */
  readonly account?: string
}

/** A name that has addresses. */
export interface Resolved {
  readonly name: string
  /** At least one. */
  readonly addresses: readonly string[]
}

/** How names are resolved that the system would complete by its search domains. */
export interface Completing {
  /** What is asked for in place of a name, in this order; undefined where it is the name itself. */
  of(name: string): readonly string[] | undefined
  /**
   * The first of several names that has an address, all within the one time limit.
   * @param name the one that they are asked for in place of
   * @returns the ProxyError 502 when none has one
   * @throws otherwise as Resolver.resolve does
   */
  first(name: string, completions: readonly string[], asker: Asker): Promise<Resolved | ProxyError>
}

export interface Resolver {
  /** The addresses of a name that need not be asked for now; undefined when they have to be. */
  kept(name: string): readonly string[] | undefined
  /**
   * @param name a host name in lower case
   * @returns at least one address
   * @throws ProxyError dns_error 502 or dns_timeout 504, 429 or 503 when too many names wait, or the signal's reason
   */
  resolve(name: string, asker: Asker): Promise<readonly string[]>
  /** Undefined where names are asked for as they are. */
  readonly completing?: Completing | undefined
}

/** @param source what it knows without being asked, and by what it completes names */
export function createResolver(
  cache: DnsCache,
  timeoutMs: number,
  source: Pick<NameSource, 'known' | 'completions'> = {},
): Resolver {
  const { known: knows, completions: completionsOf } = source
  const keptOrKnown = (name: string): readonly string[] | undefined => {
    const kept = cache.kept(name)
    if (kept !== undefined) return kept
    const known = knows?.(name)
    if (known !== undefined) cache.keep(name, known)
    return known
  }

  const first: Completing['first'] = async (name, completions, asker) => {
    let wait: Wait | undefined
    let notFound: unknown
    try {
      for (const completion of completions) {
        // RFC 6761 §6.4: the answer for .invalid is known, and asking would only tell somebody about it.
        if (completion === 'invalid' || completion.endsWith('.invalid')) continue
        let found = keptOrKnown(completion)
        if (found === undefined) {
          wait ??= new Wait(name, timeoutMs, asker.signal)
          if (asker.signal.aborted) throw asker.signal.reason
          const asked = cache.ask(completion, asker.account)
          try {
            found = await wait.until(asked)
          } catch (error) {
            if (!isNotFound(error)) throw error
            notFound = error
            continue
          } finally {
            asked.leave()
          }
        }
        if (found.length > 0) return { name: completion, addresses: found }
      }
    } finally {
      wait?.end()
    }
    return failed(name, notFound)
  }

  return {
    kept(name) {
      const addresses = cache.kept(name)
      return addresses === undefined || addresses.length === 0 ? undefined : addresses
    },
    async resolve(name, asker) {
      const found = await first(name, [name], asker)
      if (found instanceof ProxyError) throw found
      return found.addresses
    },
    completing: completionsOf && { of: completionsOf, first },
  }
}

/** The wait of one asker for a name, over all that is asked for in its place. */
class Wait {
  readonly #name: string
  readonly #signal: CancelSignal
  readonly #timer: NodeJS.Timeout
  readonly #over: Promise<never>
  #reject: (reason: unknown) => void = () => {}
  #asked: AskedName | undefined

  constructor(name: string, timeoutMs: number, signal: CancelSignal) {
    this.#name = name
    this.#signal = signal
    this.#over = new Promise((_, reject) => {
      this.#reject = reject
    })
    // It may be over between two questions.
    this.#over.catch(() => {})
    this.#timer = setTimeout(() => this.#reject(this.#timedOut()), timeoutMs)
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** @throws what the lookup rejects with when that is "not found"; else the signal's reason, or a ProxyError */
  async until(asked: AskedName): Promise<readonly string[]> {
    this.#asked = asked
    try {
      return await Promise.race([asked.answer, this.#over])
    } catch (error) {
      if (error instanceof ProxyError || error === this.#signal.reason || isNotFound(error)) throw error
      throw outOfDescriptors(error, this.#name) ?? failed(this.#name, error)
    }
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  readonly #onAbort = (): void => this.#reject(this.#signal.reason)

  #timedOut(): ProxyError {
    return this.#asked?.isWaiting === true ? unasked(this.#name) : unanswered(this.#name)
  }
}

/** @param cause what the lookup threw; none when it has found nothing */
function failed(name: string, cause?: unknown): ProxyError {
  if (cause === undefined || isNotFound(cause)) {
    const detail = `DNS has no address for ${name}.`
    return new ProxyError('dns_error', `no address found for ${name}`, { cause, detail })
  }
  const code = errorCode(cause)
  return new ProxyError('dns_error', `DNS failed for ${name}`, {
    cause,
    detail: `The DNS server could not answer for ${name}${code === undefined ? '' : ` (${code})`}.`,
  })
}

/** What turns names into addresses in a proxy with a configuration. */
export interface Names {
  /** For names that requests ask for. */
  readonly resolver: Resolver
  /** For names that the configuration holds: what the system makes of them is what was meant. */
  readonly configured: Resolver
  close(): void
}

/** What names are resolved by where the configuration says nothing else. */
export interface NameEnvironment {
  /** In place of the system's resolver and of `dns.servers`. */
  readonly lookup?: AddressLookup
  /** What the system's resolver is set up with. */
  readonly system?: SystemNamesOptions
}

export interface NamesOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly descriptors: Descriptors
}

/**
 * All lookups of a process, whatever the configuration that they were begun under: they share its threads and sockets, and
 * those of a configuration that is gone may still run.
 */
export class Lookups {
  readonly queue: FairQueue<Answer>
  readonly #environment: NameEnvironment

  /** @param onRejected notified of each name that is refused for a limit */
  constructor(
    config: Config,
    environment: NameEnvironment,
    onRejected: (limit: LimitName) => void = () => {},
  ) {
    this.#environment = environment
    this.queue = new FairQueue({
      limits: lookupLimits(config),
      atOnce: this.#atOnce(config),
      refuse: (limit, value) => {
        const name = limit === 'inAll' ? 'dns_lookups' : 'dns_lookups_per_client'
        onRejected(name)
        return limitReached(name, String(value))
      },
    })
  }

  /** Goes on with the bounds of another configuration. */
  configure(config: Config): void {
    this.queue.configure(lookupLimits(config), this.#atOnce(config))
  }

  names({ dns }: Config, { now, descriptors }: NamesOptions): Names {
    const { queue } = this
    const { lookup, system } = this.#environment
    const resolverOf = (source: NameSource): Resolver =>
      createResolver(new DnsCache({ ...dns, source, queue, now }), dns.timeoutMs, source)
    if (lookup === undefined && dns.servers.length === 0) {
      return {
        resolver: resolverOf(systemNames(system)),
        configured: resolverOf(untimed(system?.lookup ?? systemLookup)),
        close: () => {},
      }
    }
    const source = lookup === undefined ? new DnsServers({ ...dns, descriptors }) : untimed(lookup)
    const resolver = resolverOf(source)
    return { resolver, configured: resolver, close: () => source.close() }
  }

  #atOnce({ dns }: Config): number {
    if (dns.servers.length > 0) return NAMES_AT_ONCE
    return systemLookupsAtOnce(this.#environment.system?.environment?.['UV_THREADPOOL_SIZE'])
  }
}

function lookupLimits({ limits }: Config): QueueLimits {
  return { inAll: limits.dnsLookups, perClient: limits.dnsLookupsPerClient }
}
