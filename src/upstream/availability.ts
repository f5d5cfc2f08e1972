/**
 * Which of several upstreams are up. One that could not be connected to is passed over for a while as long as others
 * are there; after that one request tries it again.
 */
import type { Logger } from 'pino'
import type { ProxyError, ProxyErrorType } from '../errors.js'

/** Milliseconds for which an upstream that could not be reached is passed over. */
export const DOWN_MS = 5000

export interface AvailabilityOptions<Upstream> {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Notified when an upstream cannot be reached any more, with the error, and when it can be again. */
  readonly onChange: (upstream: Upstream, error: ProxyError | undefined) => void
}

/** An upstream cannot be reached. */
export interface Outage {
  /** When that was found out: milliseconds, monotonic. */
  readonly since: number
  /** Why the last attempt failed. */
  readonly error: ProxyError
}

/** How one upstream does. */
export interface Health<Upstream> {
  readonly upstream: Upstream
  /** Undefined while it is up: the last attempt to connect to it succeeded, or there was none. */
  readonly outage: Outage | undefined
  /** How often it could not be connected to, by the error. */
  readonly failures: ReadonlyMap<ProxyErrorType, number>
}

export class Availability<Upstream> {
  readonly #options: AvailabilityOptions<Upstream>
  /** Of those that are down; each is passed over until then. */
  readonly #down = new Map<Upstream, Outage & { until: number }>()
  readonly #failures = new Map<Upstream, Map<ProxyErrorType, number>>()

  constructor(options: AvailabilityOptions<Upstream>) {
    this.#options = options
  }

  /** Those that are up, or all where none is. */
  preferred(upstreams: readonly Upstream[]): readonly Upstream[] {
    const up = upstreams.filter(upstream => !this.isDown(upstream))
    return up.length > 0 ? up : upstreams
  }

  /** Whether it is passed over while there are others. */
  isDown(upstream: Upstream): boolean {
    const down = this.#down.get(upstream)
    return down !== undefined && down.until > this.#options.now()
  }

  /** A request is about to go there. When it is down, that one finds out whether it is back; the others do not wait with it. */
  chosen(upstream: Upstream): void {
    const down = this.#down.get(upstream)
    if (down !== undefined) down.until = this.#options.now() + DOWN_MS
  }

  /** A connection to it was established. */
  reached(upstream: Upstream): void {
    if (this.#down.delete(upstream)) this.#options.onChange(upstream, undefined)
  }

  /** None could be established. */
  unreached(upstream: Upstream, error: ProxyError): void {
    const failures = this.#failures.get(upstream) ?? new Map<ProxyErrorType, number>()
    failures.set(error.type, (failures.get(error.type) ?? 0) + 1)
    this.#failures.set(upstream, failures)
    const before = this.#down.get(upstream)
    const now = this.#options.now()
    this.#down.set(upstream, { since: before?.since ?? now, error, until: now + DOWN_MS })
    if (before === undefined) this.#options.onChange(upstream, error)
  }

  healthOf(upstream: Upstream): Health<Upstream> {
    const failures = this.#failures.get(upstream) ?? new Map<ProxyErrorType, number>()
    return { upstream, outage: this.#down.get(upstream), failures }
  }
}

/**
 * Logs a change of an upstream's health: `upstream_down` when it cannot be reached any more, `upstream_up` when it can.
 * @param error what kept it from being reached; undefined when it has been
 */
export function logUpstream(
  logger: Logger,
  { source, url }: { readonly source: string; readonly url: string },
  error: ProxyError | undefined,
): void {
  if (error === undefined) logger.info({ event: 'upstream_up', source, upstream: url })
  else logger.warn({ event: 'upstream_down', source, upstream: url, error: error.type })
}
