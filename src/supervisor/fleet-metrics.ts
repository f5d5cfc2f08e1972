/**
 * The metrics of all processes together: each worker is asked when somebody wants to know. What is told never falls: of a
 * worker that has ended, or does not answer in time, it is what it told last.
 */
import type { MetricsReport, ReportedMetric } from '../observe/exposition.js'
import { type BuildInfo, Metrics, type RELOAD_RESULTS } from '../observe/metrics.js'
import { ANSWER_SECONDS, isSettledWithin, type Pause } from './waits.js'

export interface FleetMetricsOptions {
  readonly configHash: () => string
  readonly build: BuildInfo | undefined
  /** Of the supervisor's own log, through which those of the workers go. */
  readonly lostLogLines: () => number
  /** Of the supervisor's process. */
  readonly process: (() => Promise<MetricsReport>) | undefined
  readonly pause: Pause
}

/** A worker, as far as this is concerned. */
export interface Reporter {
  /** What it told last; undefined when it has not been asked. */
  readonly lastReport: MetricsReport | undefined
  /** Asks it. Never rejects. */
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

  begun(worker: Reporter): void {
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
    // From here on without a pause: a worker that ends meanwhile would be counted twice.
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
 * What workers that are gone have counted: a total that fell with each of them would look like one that had begun anew,
 * and be counted twice. What they measured (gauges) has gone with them.
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
        // What all workers tell of something that they share is no more for a second one.
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
