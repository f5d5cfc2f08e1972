/** Metrics as text: merges several reports into the Prometheus text format or into OpenMetrics. */
import { createRequire } from 'node:module'
import type { RegistryContentType } from 'prom-client'

/** One metric with its values, in the shape that prom-client reports. */
export interface ReportedMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary'
  /** How prom-client merges the values of several reports: `sum`, `min`, `max`, `first` and so on. */
  readonly aggregator: string
  readonly values: readonly {
    readonly value: number
    readonly labels: Readonly<Record<string, string | number>>
    readonly metricName?: string | undefined
  }[]
}

/** The metrics of one worker, as plain JSON. */
export type MetricsReport = readonly ReportedMetric[]

export interface Exposition {
  readonly contentType: string
  readonly text: string
}

export type ExpositionFormat = 'text' | 'openmetrics'

/** Loads the library at the first use, synchronously: a client that has sent its FIN does not wait for a late answer. */
function loadLibrary(): typeof import('prom-client') {
  return createRequire(import.meta.url)('prom-client') as typeof import('prom-client')
}

/** @param reports one for each worker */
export async function serializeMetrics(
  reports: readonly MetricsReport[],
  format: ExpositionFormat,
): Promise<Exposition> {
  const { AggregatorRegistry, Registry } = loadLibrary()
  const contentType = format === 'text' ? Registry.PROMETHEUS_CONTENT_TYPE : Registry.OPENMETRICS_CONTENT_TYPE
  const prepared = reports.map(report => report.map(metric => prepare(metric, format)))
  const merged = AggregatorRegistry.aggregate<RegistryContentType>(prepared)
  merged.setContentType(contentType)
  return { contentType, text: await merged.metrics() }
}

/** Corrects what the library gets wrong when it merges. */
function prepare(metric: ReportedMetric, format: ExpositionFormat): ReportedMetric {
  // The library would leave this metric out.
  if (metric.name === 'process_start_time_seconds') return { ...metric, aggregator: 'min' }
  // In OpenMetrics the samples of a counter end with _total and its name does not; the library would add a second _total.
  if (format === 'openmetrics' && metric.type === 'counter') {
    return { ...metric, name: metric.name.replace(/_total$/, '') }
  }
  return metric
}
