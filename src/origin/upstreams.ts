/**
 * Load balancing: chooses one of the upstreams of an origin for each request.
 *
 * The upstream with the fewest requests in progress is chosen, round robin if there are several. An upstream that is down
 * is chosen only if all are.
 */
import type { ProxyError } from '../errors.js'
import { Availability, type AvailabilityOptions, type Health } from '../upstream/availability.js'

export class Upstreams<Upstream> {
  /** How many there are. */
  readonly size: number
  readonly #upstreams: readonly Upstream[]
  readonly #availability: Availability<Upstream>
  /** The number of requests in progress. */
  readonly #inUse = new Map<Upstream, number>()
  #turn = 0

  /** @param upstreams at least one */
  constructor(upstreams: readonly Upstream[], options: AvailabilityOptions<Upstream>) {
    this.#upstreams = upstreams
    this.size = upstreams.length
    this.#availability = new Availability(options)
  }

  /**
   * Chooses the upstream for a request, which counts as in progress there until `done`. Upstreams that are down come last.
   * @param tried the upstreams that this request has already been sent to
   * @returns undefined if it has been sent to all of them
   */
  take(tried: ReadonlySet<Upstream>): Upstream | undefined {
    const upstreams = this.#upstreams
    const start = this.#turn++
    let chosen: Upstream | undefined
    let isDown = true
    for (let i = 0; i < upstreams.length; i++) {
      const upstream = upstreams[(start + i) % upstreams.length] as Upstream
      if (tried.has(upstream)) continue
      const isThisDown = this.#availability.isDown(upstream)
      const isBetter =
        chosen === undefined || (isThisDown === isDown ? this.#load(upstream) < this.#load(chosen) : isDown)
      if (!isBetter) continue
      chosen = upstream
      isDown = isThisDown
    }
    if (chosen === undefined) return undefined
    this.#availability.chosen(chosen)
    this.#inUse.set(chosen, this.#load(chosen) + 1)
    return chosen
  }

  /** A request for which `take` chose this upstream has ended. */
  done(upstream: Upstream): void {
    this.#inUse.set(upstream, this.#load(upstream) - 1)
  }

  /** A connection to the upstream was established. */
  markUp(upstream: Upstream): void {
    this.#availability.markUp(upstream)
  }

  /** Connecting to the upstream failed. */
  markDown(upstream: Upstream, error: ProxyError): void {
    this.#availability.markDown(upstream, error)
  }

  #load(upstream: Upstream): number {
    return this.#inUse.get(upstream) ?? 0
  }

  /** The health of all upstreams, in the order of the configuration. */
  get health(): Health<Upstream>[] {
    return this.#upstreams.map(upstream => this.#availability.healthOf(upstream))
  }
}
