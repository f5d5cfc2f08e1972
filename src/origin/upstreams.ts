/**
 * The upstreams of one origin: which gets the next request, and which are down.
 *
 * The one with the fewest requests under way is chosen, those that are level in turn. One that could not be connected
 * to is passed over for a while as long as others are there; after that one request tries it again.
 */
import type { ProxyError, ProxyErrorType } from '../errors.js'

/** Milliseconds for which an upstream that could not be reached is passed over. */
export const DOWN_MS = 5000

export interface UpstreamsOptions<Upstream> {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Told when an upstream can not be reached any more, with the error, and when it can be again. */
  readonly onChange: (upstream: Upstream, error: ProxyError | undefined) => void
}

/** How one upstream does. */
export interface Health<Upstream> {
  readonly upstream: Upstream
  /** Whether the last attempt to connect to it succeeded; true before there was one. */
  readonly up: boolean
  /** How often it could not be connected to, by the error. */
  readonly failures: ReadonlyMap<ProxyErrorType, number>
}

interface Member<Upstream> {
  readonly upstream: Upstream
  readonly failures: Map<ProxyErrorType, number>
  inUse: number
  /** Until when it is passed over; undefined while it is up. */
  downUntil: number | undefined
}

export class Upstreams<Upstream> {
  readonly #members: readonly Member<Upstream>[]
  readonly #options: UpstreamsOptions<Upstream>
  #turn = 0

  /** @param upstreams at least one */
  constructor(upstreams: readonly Upstream[], options: UpstreamsOptions<Upstream>) {
    this.#members = upstreams.map(upstream => ({
      upstream,
      failures: new Map(),
      inUse: 0,
      downUntil: undefined,
    }))
    this.#options = options
  }

  /**
   * The upstream for a request, counted as in use until `done`. Those that are down come after all others.
   * @param tried those that this request has been to already
   * @returns undefined when it has been to all
   */
  take(tried: ReadonlySet<Upstream>): Upstream | undefined {
    const now = this.#options.now()
    const left = this.#inTurn().filter(({ upstream }) => !tried.has(upstream))
    const up = left.filter(({ downUntil }) => downUntil === undefined || downUntil <= now)
    const chosen = (up.length > 0 ? up : left).reduce<Member<Upstream> | undefined>(
      (best, member) => (best === undefined || member.inUse < best.inUse ? member : best),
      undefined,
    )
    if (chosen === undefined) return undefined
    // One request finds out whether it is back; the others do not wait with it.
    if (chosen.downUntil !== undefined) chosen.downUntil = now + DOWN_MS
    chosen.inUse++
    return chosen.upstream
  }

  /** A request of `take` is over. */
  done(upstream: Upstream): void {
    const member = this.#memberOf(upstream)
    if (member !== undefined) member.inUse--
  }

  /** A connection to it stood. */
  reached(upstream: Upstream): void {
    const member = this.#memberOf(upstream)
    if (member?.downUntil === undefined) return
    member.downUntil = undefined
    this.#options.onChange(upstream, undefined)
  }

  /** None came to stand. */
  unreached(upstream: Upstream, error: ProxyError): void {
    const member = this.#memberOf(upstream)
    if (member === undefined) return
    member.failures.set(error.type, (member.failures.get(error.type) ?? 0) + 1)
    const wasUp = member.downUntil === undefined
    member.downUntil = this.#options.now() + DOWN_MS
    if (wasUp) this.#options.onChange(upstream, error)
  }

  /** In the order in which they were given. */
  get health(): Health<Upstream>[] {
    return this.#members.map(({ upstream, failures, downUntil }) => ({
      upstream,
      up: downUntil === undefined,
      failures,
    }))
  }

  /** All of them, beginning with another one each time. */
  #inTurn(): Member<Upstream>[] {
    const start = this.#turn++ % this.#members.length
    return [...this.#members.slice(start), ...this.#members.slice(0, start)]
  }

  #memberOf(upstream: Upstream): Member<Upstream> | undefined {
    return this.#members.find(member => member.upstream === upstream)
  }
}
