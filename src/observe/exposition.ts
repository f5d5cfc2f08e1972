/** Metrics as text: the Prometheus text format, or OpenMetrics for those who ask for it; several reports merged. */
import { createRequire } from 'node:module'
import type { RegistryContentType } from 'prom-client'

/** One metric with its values, as the library reports it. */
export interface ReportedMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary'
  /** How the values of several reports become one. */
  readonly aggregator: string
  readonly values: readonly {
    readonly value: number
    readonly labels: Readonly<Record<string, string | number>>
    readonly metricName?: string | undefined
  }[]
}

/** The metrics of one worker: plain JSON. */
export type MetricsReport = readonly ReportedMetric[]

export interface Exposition {
  readonly contentType: string
  readonly text: string
}

export type ExpositionFormat = 'text' | 'openmetrics'

/** Loaded when it is first needed, at once: some who ask have sent their FIN and take no late answer. */
function library(): typeof import('prom-client') {
  return createRequire(import.meta.url)('prom-client') as typeof import('prom-client')
}

/** @param reports of each worker one */
export async function serializeMetrics(
  reports: readonly MetricsReport[],
  format: ExpositionFormat,
): Promise<Exposition> {
  const { AggregatorRegistry, Registry } = library()
  const contentType = format === 'text' ? Registry.PROMETHEUS_CONTENT_TYPE : Registry.OPENMETRICS_CONTENT_TYPE
  const prepared = reports.map(report => report.map(metric => prepare(metric, format)))
  const merged = AggregatorRegistry.aggregate<RegistryContentType>(prepared)
  merged.setContentType(contentType)
  return { contentType, text: await merged.metrics() }
}

/** What the library does not get right by itself when it merges. */
function prepare(metric: ReportedMetric, format: ExpositionFormat): ReportedMetric {
  // It would leave this one out.
  if (metric.name === 'process_start_time_seconds') return { ...metric, aggregator: 'min' }
  // OpenMetrics names the samples of a counter with _total and the counter itself without; it would add a second one.
  if (format === 'openmetrics' && metric.type === 'counter') {
    return { ...metric, name: metric.name.replace(/_total$/, '') }
  }
  return metric
}
