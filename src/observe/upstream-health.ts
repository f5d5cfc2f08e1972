/** The health of parent proxies and of the upstreams of `origins`: one list of both, and the metrics made of it. */
import type { RouteHealth } from '../origin/create-origins.js'
import type { Health } from '../upstream/availability.js'
import type { Parent } from '../upstream/parents.js'
import type { MetricsReport } from './exposition.js'
import { metric } from './series.js'

/** The route of parent proxies; the route of an origin contains a slash. */
const PARENT = 'parent'

export interface UpstreamHealth {
  /** Host, if any, and path of the origin, as configured; `parent` for a parent proxy. */
  readonly route: string
  /** `scheme://host:port`. */
  readonly upstream: string
  /** Whether the last attempt to connect to it succeeded; true before there was one. */
  readonly up: boolean
  /** When it went down, in milliseconds since the epoch; undefined while it is up. */
  readonly downSinceMs: number | undefined
  /** When the last attempt to connect failed, in milliseconds since the epoch; undefined while it is up. */
  readonly lastTriedMs: number | undefined
  /** Why that attempt failed, as a clause; undefined while it is up. */
  readonly error: string | undefined
  /** The number of failed attempts to connect, by the type of the error. */
  readonly failures: ReadonlyMap<string, number>
}

/**
 * @param parents empty if requests go directly
 * @param toWallClock converts monotonic milliseconds to milliseconds since the epoch
 */
export function listUpstreams(
  parents: readonly Health<Parent>[],
  origins: readonly RouteHealth[],
  toWallClock: (ms: number) => number,
): UpstreamHealth[] {
  return [...parents.map(health => ({ route: PARENT, ...health })), ...origins].map(
    ({ route, upstream, outage, failures }) => ({
      route,
      upstream: upstream.url,
      up: outage === undefined,
      downSinceMs: outage && toWallClock(outage.since),
      lastTriedMs: outage && toWallClock(outage.lastTried),
      error: outage?.error.message,
      failures,
    }),
  )
}

/** The values of the labels come from the configuration, so they are closed lists. */
export function reportUpstreams(health: readonly UpstreamHealth[]): MetricsReport {
  return [
    metric(
      'gauge',
      'sluice_upstream_up',
      'Whether the last attempt to connect to a parent or an upstream succeeded; 1 before there was one.',
      health.map(({ route, upstream, up }) => [{ route, upstream }, up ? 1 : 0]),
      // 0 if one of several workers cannot reach it.
      'min',
    ),
    metric(
      'counter',
      'sluice_upstream_failures_total',
      'Attempts to connect to a parent or an upstream that failed.',
      health.flatMap(({ route, upstream, failures }) =>
        [...failures].map(([error, count]) => [{ route, upstream, error }, count] as const),
      ),
    ),
  ]
}
