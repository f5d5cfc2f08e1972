/**
 * The metrics of all processes together; each worker is asked when the metrics are read. Totals never fall: for a
 * worker that has ended, or does not answer in time, its last report is used.
 */
import type { MetricsReport, ReportedMetric } from '../observe/exposition.js'
import { type BuildInfo, Metrics, type RELOAD_RESULTS } from '../observe/metrics.js'
import { ANSWER_SECONDS, isSettledWithin, type Pause } from './waits.js'

export interface FleetMetricsOptions {
  readonly configHash: () => string
  readonly build: BuildInfo | undefined
  /** Lines lost by the supervisor's own log, which also carries those of the workers. */
  readonly lostLogLines: () => number
  /** Metrics of the supervisor's process. */
  readonly process: (() => Promise<MetricsReport>) | undefined
  readonly pause: Pause
}

/** The parts of a worker that are used here. */
export interface Reporter {
  /** Its last report; undefined if it was never asked. */
  readonly lastReport: MetricsReport | undefined
  /** Requests a report. Never rejects. */
  report(): Promise<void>
}

export class FleetMetrics {
  readonly #own: Metrics
  readonly #past = new PastCounts()
  readonly #pause: Pause
  readonly #reporters = new Set<Reporter>()

  constructor({ configHash, build, lostLogLines, process, pause }: FleetMetricsOptions) {
    const tunnels = () => ({ size: 0, bytesUp: 0, bytesDown: 0 })
    this.#own = new Metrics({
      configHash,
      tunnels,
      upstreams: () => [],
      cache: () => undefined,
      certificates: () => [],
      lostLogLines,
      build,
      process,
    })
    this.#pause = pause
  }

  started(worker: Reporter): void {
    this.#reporters.add(worker)
  }

  ended(worker: Reporter): void {
    this.#reporters.delete(worker)
    if (worker.lastReport !== undefined) this.#past.add(worker.lastReport)
  }

  /** A worker was started in place of one that had ended. */
  workerRestarted(): void {
    this.#own.workerRestarted()
  }

  configReloaded(result: (typeof RELOAD_RESULTS)[number]): void {
    this.#own.configReloaded(result)
  }

  async reports(): Promise<readonly MetricsReport[]> {
    const asked = Promise.all([...this.#reporters].map(worker => worker.report()))
    const answered = isSettledWithin(asked, ANSWER_SECONDS, this.#pause)
    const [own] = await Promise.all([this.#own.report(), answered])
    // No await from here on: a worker that ended meanwhile would be counted twice.
    const workers = [...this.#reporters].flatMap(({ lastReport }) =>
      lastReport === undefined ? [] : [lastReport],
    )
    return [own, this.#past.report(), ...workers]
  }

  close(): void {
    this.#own.close()
  }
}

const COUNTED: ReadonlySet<string> = new Set<ReportedMetric['type']>(['counter', 'histogram'])

/**
 * The counters of workers that have ended. A total that fell with each of them would look like a restarted counter, and
 * be counted twice. Their gauges are dropped.
 */
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
        // A value that all workers report of something shared is not added up.
        const total = metric.aggregator === 'max' ? Math.max(before, value.value) : before + value.value
        known.values.set(key, { ...value, value: total })
      }
    }
  }

  report(): MetricsReport {
    return [...this.#metrics.values()].map(({ of, values }) => ({ ...of, values: [...values.values()] }))
  }
}

type ReportedValue = ReportedMetric['values'][number]
