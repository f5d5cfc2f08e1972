/** How the parent proxies and the upstreams of `origins` do: the metrics of each, and one list of both. */
import type { RouteHealth } from '../origin/create-origins.js'
import type { Health } from '../upstream/availability.js'
import type { Parent } from '../upstream/parents.js'
import type { MetricsReport } from './exposition.js'
import { metric } from './series.js'

/** The route of parent proxies; those of origins have a slash in them. */
const PARENT = 'parent'

export interface UpstreamHealth {
  /** Host, if any, and path of the origin, as configured; `parent` for a parent proxy. */
  readonly route: string
  /** `scheme://host:port`. */
  readonly upstream: string
  /** Whether the last attempt to connect to it succeeded; true before there was one. */
  readonly up: boolean
  /** When it was found to be down, in milliseconds since the epoch; undefined while it is up. */
  readonly downSinceMs: number | undefined
  /** Why the last attempt failed, in a clause; undefined while it is up. */
  readonly error: string | undefined
  /** How often it could not be connected to, by the type of the error. */
  readonly failures: ReadonlyMap<string, number>
}

/**
 * @param parents none where requests go directly
 * @param toWallClock from monotonic milliseconds to milliseconds since the epoch
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
      error: outage?.error.message,
      failures,
    }),
  )
}

/** Their labels stand in the configuration, so they are a closed list. */
export function reportUpstreams(health: readonly UpstreamHealth[]): MetricsReport {
  return [
    metric(
      'gauge',
      'sluice_upstream_up',
      'Whether the last attempt to connect to a parent or an upstream succeeded; 1 before there was one.',
      health.map(({ route, upstream, up }) => [{ route, upstream }, up ? 1 : 0]),
      // Of several workers: 0 as soon as one of them cannot reach it.
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
