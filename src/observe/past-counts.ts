/**
 * What workers that are gone have counted: a total that fell with each of them would look like one that had begun anew,
 * and be counted twice. What they measured (gauges) has gone with them.
 */
import type { MetricsReport, ReportedMetric } from './exposition.js'

const COUNTED: ReadonlySet<string> = new Set<ReportedMetric['type']>(['counter', 'histogram'])

export class PastCounts {
  readonly #metrics = new Map<string, { of: ReportedMetric; values: Map<string, ReportedValue> }>()

  add(report: MetricsReport): void {
    for (const metric of report) {
      if (!COUNTED.has(metric.type)) continue
      const known = this.#metrics.get(metric.name) ?? { of: metric, values: new Map() }
      this.#metrics.set(metric.name, known)
      for (const value of metric.values) {
        const key = JSON.stringify([value.metricName, value.labels])
        const before = known.values.get(key)?.value ?? 0
        known.values.set(key, { ...value, value: before + value.value })
      }
    }
  }

  report(): MetricsReport {
    return [...this.#metrics.values()].map(({ of, values }) => ({ ...of, values: [...values.values()] }))
  }
}

type ReportedValue = ReportedMetric['values'][number]
