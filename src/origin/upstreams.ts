/**
 * The upstreams of one origin: which gets the next request.
 *
 * The one with the fewest requests under way is chosen, those that are level in turn; one that could not be connected to
 * only where there is no other.
 */
import type { ProxyError } from '../errors.js'
import { Availability, type AvailabilityOptions, type Health } from '../upstream/availability.js'

export class Upstreams<Upstream> {
  /** How many there are. */
  readonly size: number
  readonly #upstreams: readonly Upstream[]
  readonly #availability: Availability<Upstream>
  /** Requests under way. */
  readonly #inUse = new Map<Upstream, number>()
  #turn = 0

  /** @param upstreams at least one */
  constructor(upstreams: readonly Upstream[], options: AvailabilityOptions<Upstream>) {
    this.#upstreams = upstreams
    this.size = upstreams.length
    this.#availability = new Availability(options)
  }

  /**
   * The upstream for a request, counted as in use until `done`. Those that are down come after all others.
   * @param tried those that this request has been to already
   * @returns undefined when it has been to all
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

  /** A request of `take` is over. */
  done(upstream: Upstream): void {
    this.#inUse.set(upstream, this.#load(upstream) - 1)
  }

  /** A connection to it was established. */
  reached(upstream: Upstream): void {
    this.#availability.reached(upstream)
  }

  /** None could be established. */
  unreached(upstream: Upstream, error: ProxyError): void {
    this.#availability.unreached(upstream, error)
  }

  #load(upstream: Upstream): number {
    return this.#inUse.get(upstream) ?? 0
  }

  /** In the order in which they were given. */
  get health(): Health<Upstream>[] {
    return this.#upstreams.map(upstream => this.#availability.healthOf(upstream))
  }
}
