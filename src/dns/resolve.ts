/**
 * Resolves names for outbound connections, with one time limit. A name without addresses is 502; only exceeding the
 * time limit here is 504 (RFC 9209 §2.3.1, §2.3.2).
 */
import type { Config } from '../config/schema.js'
import { errorCode, ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import type { Descriptors } from '../limits/descriptors.js'
import { FairQueue, type QueueLimits, type QueueShare } from '../limits/fair-queue.js'
import { type LimitName, limitReached } from '../limits/refusals.js'
import { isNotFound, outOfDescriptors, dnsTimeout, dnsQueueTimeout } from '../upstream/failures.js'
import { type PendingLookup, DnsCache } from './dns-cache.js'
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

/** For whom a name is resolved. Its members are read only if it has to be waited for. */
export interface ResolveOptions {
  /** Ends the wait. */
  readonly signal: CancelSignal
  /** The account for the limits of each client; absent for names from the configuration. */
  readonly account?: string
  /** How many names the client may wait for, where its entry says so. */
  readonly share?: QueueShare | undefined
}

/** A name that has addresses. */
export interface Resolved {
  readonly name: string
  /** At least one. */
  readonly addresses: readonly string[]
}

/** How names are resolved that the system would complete with its search domains. */
export interface NameCompletion {
  /** The names to look up instead of a name, in this order; undefined when it is looked up unchanged. */
  of(name: string): readonly string[] | undefined
  /**
   * The first of several names that has an address, within one time limit.
   * @param name the requested name
   * @returns ProxyError 502 when none has an address
   * @throws otherwise as Resolver.resolve
   */
  first(name: string, completions: readonly string[], options: ResolveOptions): Promise<Resolved | ProxyError>
}

export interface Resolver {
  /** The addresses of a name that are in the cache; undefined when a lookup is needed. */
  cached(name: string): readonly string[] | undefined
  /**
   * @param name a host name in lower case
   * @returns at least one address
   * @throws ProxyError dns_error 502 or dns_timeout 504, 429 or 503 when too many names wait, or the signal's reason
   */
  resolve(name: string, options: ResolveOptions): Promise<readonly string[]>
  /** Undefined when all names are looked up unchanged. */
  readonly completion?: NameCompletion | undefined
}

/** @param source its names that are known without a query, and its completions */
export function createResolver(
  cache: DnsCache,
  timeoutMs: number,
  source: Pick<NameSource, 'known' | 'completions'> = {},
): Resolver {
  const { known: knownTo, completions: completionsOf } = source
  const cachedOrKnown = (name: string): readonly string[] | undefined => {
    const cached = cache.cached(name)
    if (cached !== undefined) return cached
    const known = knownTo?.(name)
    if (known !== undefined) cache.add(name, known)
    return known
  }

  const first: NameCompletion['first'] = async (name, completions, options) => {
    let wait: Wait | undefined
    let notFound: unknown
    try {
      for (const completion of completions) {
        // RFC 6761 §6.4: .invalid never has an address, and a query would only reveal the name.
        if (completion === 'invalid' || completion.endsWith('.invalid')) continue
        let found = cachedOrKnown(completion)
        if (found === undefined) {
          wait ??= new Wait(name, timeoutMs, options.signal)
          if (options.signal.aborted) throw options.signal.reason
          const asked = cache.ask(completion, options.account, options.share)
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
    cached(name) {
      const addresses = cache.cached(name)
      return addresses === undefined || addresses.length === 0 ? undefined : addresses
    },
    async resolve(name, options) {
      const found = await first(name, [name], options)
      if (found instanceof ProxyError) throw found
      return found.addresses
    },
    completion: completionsOf && { of: completionsOf, first },
  }
}

/** Waits for the addresses of a name, over the lookups of all its completions. */
class Wait {
  readonly #name: string
  readonly #signal: CancelSignal
  readonly #timer: NodeJS.Timeout
  readonly #over: Promise<never>
  #reject: (reason: unknown) => void = () => {}
  #asked: PendingLookup | undefined

  constructor(name: string, timeoutMs: number, signal: CancelSignal) {
    this.#name = name
    this.#signal = signal
    this.#over = new Promise((_, reject) => {
      this.#reject = reject
    })
    // It may reject between two lookups.
    this.#over.catch(() => {})
    this.#timer = setTimeout(() => this.#reject(this.#timedOut()), timeoutMs)
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** @throws the error of the lookup if it is "not found"; otherwise the signal's reason, or a ProxyError */
  async until(asked: PendingLookup): Promise<readonly string[]> {
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
    return this.#asked?.isWaiting === true ? dnsQueueTimeout(this.#name) : dnsTimeout(this.#name)
  }
}

/** @param cause the error of the lookup; absent when it has found nothing */
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

/** The resolvers of a configuration. */
export interface Names {
  /** For names in requests. */
  readonly resolver: Resolver
  /** For names in the configuration, which the system may complete: that is what their author expects. */
  readonly configured: Resolver
  close(): void
}

/** Replacements for the system's name resolution. */
export interface NameEnvironment {
  /** Instead of the system's resolver and of `dns.servers`. */
  readonly lookup?: AddressLookup
  /** The configuration of the system's resolver. */
  readonly system?: SystemNamesOptions
}

export interface NamesOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  readonly descriptors: Descriptors
}

/**
 * All lookups of a process, also of previous configurations: they share threads and sockets, and lookups of a replaced
 * configuration may still run.
 */
export class Lookups {
  readonly queue: FairQueue<Answer>
  readonly #environment: NameEnvironment

  /** @param onRejected called for each name that is refused because of a limit */
  constructor(
    config: Config,
    environment: NameEnvironment,
    onRejected: (limit: LimitName) => void = () => {},
  ) {
    this.#environment = environment
    this.queue = new FairQueue({
      limits: lookupLimits(config),
      atOnce: this.#atOnce(config),
      refuse: (limit, value, key) => {
        const name = limit === 'inAll' ? 'dns_lookups' : 'dns_lookups_per_client'
        onRejected(name)
        return limitReached(name, String(value), { key })
      },
    })
  }

  /** Applies the limits of another configuration. */
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
