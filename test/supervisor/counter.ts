/** Metrics with one value, as a worker reports them. */
import type { ReportedMetric } from '../../src/observe/exposition.js'

export function counter(value: number): ReportedMetric {
  return { name: 'a_total', help: 'A.', type: 'counter', aggregator: 'sum', values: [{ value, labels: {} }] }
}

export function gauge(value: number): ReportedMetric {
  return { name: 'a_now', help: 'A.', type: 'gauge', aggregator: 'sum', values: [{ value, labels: {} }] }
}
