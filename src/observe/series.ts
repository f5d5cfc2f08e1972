/**
 * Metrics as plain numbers, reported in the shape of the Prometheus library's own. The library is loaded only when metrics
 * are requested; looking up one of its counters would take too long for every request.
 */
import type { ReportedMetric } from './exposition.js'

/** Values that are not on a closed list are counted as this one, if the list contains it. */
export const OTHER = 'other'

type Labels = Readonly<Record<string, string>>

/**
 * @param help a sentence
 * @param values each with its labels
 */
export function metric(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  values: readonly (readonly [Labels, number])[],
  aggregator: 'sum' | 'min' | 'max' | 'first' = 'sum',
): ReportedMetric {
  return { name, help, type, aggregator, values: values.map(([labels, value]) => ({ labels, value })) }
}

/** A counter with one label whose values are a closed list. */
export class ClosedCounter<Value extends string = string> {
  readonly #name: string
  readonly #help: string
  readonly #label: string
  readonly #counts: Map<string, number>

  /** @param values the values of the label; each begins at 0 */
  constructor(name: string, help: string, label: string, values: readonly Value[]) {
    this.#name = name
    this.#help = help
    this.#label = label
    this.#counts = new Map(values.map(value => [value, 0]))
  }

  /** The counts by value, in the order of the list. */
  counts(): Readonly<Record<Value, number>> {
    return Object.fromEntries(this.#counts) as Record<Value, number>
  }

  add(value: string): void {
    const key = this.#counts.has(value) ? value : OTHER
    const before = this.#counts.get(key)
    if (before !== undefined) this.#counts.set(key, before + 1)
  }

  report(): ReportedMetric {
    const values = [...this.#counts].map(([value, count]) => [{ [this.#label]: value }, count] as const)
    return metric('counter', this.#name, this.#help, values)
  }
}

/** A distribution of durations. On the hot path the caller updates the fields in place instead of calling `observe`. */
export class Histogram {
  /** Upper bounds of the buckets, in seconds, ascending. */
  readonly bounds: readonly number[]
  /** The counts of the buckets, not cumulative; the last one counts durations above all bounds. */
  readonly counts: number[]
  /** The sum of all durations, in seconds. */
  sum = 0
  readonly #name: string
  readonly #help: string

  /** @param bounds upper bounds of the buckets, in seconds, ascending */
  constructor(name: string, help: string, bounds: readonly number[]) {
    this.#name = name
    this.#help = help
    this.bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(seconds: number): void {
    let bucket = 0
    while (seconds > (this.bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1
    this.sum += seconds
  }

  report(): ReportedMetric {
    const name = this.#name
    const values: ReportedMetric['values'][number][] = []
    let count = 0
    for (const [bucket, within] of this.counts.entries()) {
      count += within
      const le = this.bounds[bucket] ?? '+Inf'
      values.push({ labels: { le }, value: count, metricName: `${name}_bucket` })
    }
    values.push({ labels: {}, value: this.sum, metricName: `${name}_sum` })
    values.push({ labels: {}, value: count, metricName: `${name}_count` })
    return { name, help: this.#help, type: 'histogram', aggregator: 'sum', values }
  }
}
