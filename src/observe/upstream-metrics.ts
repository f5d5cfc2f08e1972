/** What is counted of the upstreams of `origins`. Their labels stand in the configuration, so they are a closed list. */
import type { UpstreamHealth } from '../origin/create-origins.js'
import type { MetricsReport } from './exposition.js'
import { metric } from './series.js'

export function reportUpstreams(health: readonly UpstreamHealth[]): MetricsReport {
  return [
    metric(
      'gauge',
      'sluice_upstream_up',
      'Whether the last attempt to connect to an upstream succeeded; 1 before there was one.',
      health.map(({ route, upstream, up }) => [{ route, upstream }, up ? 1 : 0]),
      // Of several workers: 0 as soon as one of them cannot reach it.
      'min',
    ),
    metric(
      'counter',
      'sluice_upstream_failures_total',
      'Attempts to connect to an upstream that failed.',
      health.flatMap(({ route, upstream, failures }) =>
        [...failures].map(([error, count]) => [{ route, upstream, error }, count] as const),
      ),
    ),
  ]
}
