/**
 * Which of several upstreams are up. An upstream that could not be connected to is skipped for a while if there are
 * others; then a single request tries it again.
 */
import type { Logger } from 'pino'
import type { ProxyError, ProxyErrorType } from '../errors.js'

/** Milliseconds for which an upstream that could not be connected to is skipped. */
export const DOWN_MS = 5000

export interface AvailabilityOptions<Upstream> {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Called with an error when an upstream goes down, and without one when it is up again. */
  readonly onChange: (upstream: Upstream, error: ProxyError | undefined) => void
}

/** Why and since when an upstream cannot be reached. */
export interface Outage {
  /** When the first attempt failed: milliseconds, monotonic. */
  readonly since: number
  /** When the last attempt failed, in the same time, and why. */
  readonly lastTried: number
  readonly error: ProxyError
}

/** The health of one upstream. */
export interface Health<Upstream> {
  readonly upstream: Upstream
  /** Undefined while it is up: the last attempt to connect to it succeeded, or there was none. */
  readonly outage: Outage | undefined
  /** How many times connecting to it failed, by error type. */
  readonly failures: ReadonlyMap<ProxyErrorType, number>
}

export class Availability<Upstream> {
  readonly #options: AvailabilityOptions<Upstream>
  /** The upstreams that are down, and until when each is skipped. */
  readonly #down = new Map<Upstream, Outage & { until: number }>()
  readonly #failures = new Map<Upstream, Map<ProxyErrorType, number>>()

  constructor(options: AvailabilityOptions<Upstream>) {
    this.#options = options
  }

  /** The upstreams that are up; all of them if none is. */
  preferred(upstreams: readonly Upstream[]): readonly Upstream[] {
    const up = upstreams.filter(upstream => !this.isDown(upstream))
    return up.length > 0 ? up : upstreams
  }

  /** Whether an upstream is skipped in favour of others. */
  isDown(upstream: Upstream): boolean {
    const down = this.#down.get(upstream)
    return down !== undefined && down.until > this.#options.now()
  }

  /** A request is about to be sent to an upstream. If that is down, only this request tries it; others still skip it. */
  chosen(upstream: Upstream): void {
    const down = this.#down.get(upstream)
    if (down !== undefined) down.until = this.#options.now() + DOWN_MS
  }

  /** A connection to the upstream was established. */
  markUp(upstream: Upstream): void {
    if (this.#down.delete(upstream)) this.#options.onChange(upstream, undefined)
  }

  /** Connecting to the upstream failed. */
  markDown(upstream: Upstream, error: ProxyError): void {
    const failures = this.#failures.get(upstream) ?? new Map<ProxyErrorType, number>()
    failures.set(error.type, (failures.get(error.type) ?? 0) + 1)
    this.#failures.set(upstream, failures)
    const before = this.#down.get(upstream)
    const now = this.#options.now()
    this.#down.set(upstream, { since: before?.since ?? now, lastTried: now, error, until: now + DOWN_MS })
    if (before === undefined) this.#options.onChange(upstream, error)
  }

  healthOf(upstream: Upstream): Health<Upstream> {
    const failures = this.#failures.get(upstream) ?? new Map<ProxyErrorType, number>()
    return { upstream, outage: this.#down.get(upstream), failures }
  }
}

/**
 * Logs that an upstream went down (`upstream_down`) or is up again (`upstream_up`).
 * @param error why it is down; undefined if it is up
 */
export function logUpstream(
  logger: Logger,
  { source, url }: { readonly source: string; readonly url: string },
  error: ProxyError | undefined,
): void {
  if (error === undefined) logger.info({ event: 'upstream_up', source, upstream: url })
  else logger.warn({ event: 'upstream_down', source, upstream: url, error: error.type })
}
