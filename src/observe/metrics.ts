/**
 * The metrics of one proxy. All of them are numbers that are kept anyway and read when they are asked for; a report of
 * them is plain JSON, so that those of several workers can be merged.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Registry } from 'prom-client'
import type { UpstreamHealth } from '../origin/create-origins.js'
import { cacheMetrics, type OperatedCache } from './cache-report.js'
import { ExchangeMetrics, type OpenTunnels } from './exchange-metrics.js'
import type { MetricsReport, ReportedMetric } from './exposition.js'
import { ClosedCounter, metric } from './series.js'

export interface BuildInfo {
  /** Of Sluice. */
  readonly version: string
  /** Of Node. */
  readonly node: string
}

/** Where the numbers come from that others keep. Each is asked at every report. */
export interface MetricsOptions {
  readonly configHash: () => string
  readonly tunnels: () => OpenTunnels
  readonly upstreams: () => readonly UpstreamHealth[]
  readonly cache: () => OperatedCache | undefined
  readonly build: BuildInfo | undefined
  /** Of the process, when this proxy speaks for it. */
  readonly process: (() => Promise<MetricsReport>) | undefined
}

export const RELOAD_RESULTS = ['applied', 'rejected'] as const

export class Metrics {
  readonly exchanges: ExchangeMetrics
  readonly #options: MetricsOptions
  readonly #reloads = new ClosedCounter(
    'sluice_config_reloads_total',
    'Reloads of the configuration.',
    'result',
    RELOAD_RESULTS,
  )
  readonly #lag = new EventLoopLag()

  constructor(options: MetricsOptions) {
    this.#options = options
    this.exchanges = new ExchangeMetrics(options.tunnels)
  }

  /** A configuration was read anew, and taken over or not. */
  configReloaded(result: (typeof RELOAD_RESULTS)[number]): void {
    this.#reloads.add(result)
  }

  async report(): Promise<MetricsReport> {
    const { configHash, upstreams, cache, build, process } = this.#options
    const [processMetrics = [], ofCache] = await Promise.all([process?.(), cacheMetrics(cache())])
    return [
      ...this.exchanges.report(),
      ...reportUpstreams(upstreams()),
      ...ofCache,
      this.#reloads.report(),
      metric(
        'gauge',
        'sluice_config_info',
        'The configuration in force; always 1.',
        [[{ hash: configHash() }, 1]],
        'first',
      ),
      ...(build === undefined ? [] : [reportBuild(build)]),
      this.#lag.report(),
      ...processMetrics,
    ]
  }

  close(): void {
    this.#lag.close()
  }
}

function reportBuild({ version, node }: BuildInfo): MetricsReport[number] {
  const help = 'The versions of Sluice and of Node; always 1.'
  return metric('gauge', 'sluice_build_info', help, [[{ version, node }, 1]], 'first')
}

/** What is counted of the upstreams of `origins`. Their labels stand in the configuration, so they are a closed list. */
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

/** Milliseconds between two looks. They do not keep the process alive. */
const RESOLUTION_MS = 10

/** How late the event loop runs what is due: the one number that says whether a worker is overloaded. */
export class EventLoopLag {
  readonly #monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS })

  constructor() {
    this.#monitor.enable()
  }

  /** Begins the next measurement. */
  report(): ReportedMetric {
    // What is recorded is the time between two looks.
    const seconds = Math.max(0, this.#monitor.max / 1e6 - RESOLUTION_MS) / 1000
    this.#monitor.reset()
    const help = 'Longest delay of the event loop since the last scrape.'
    return metric('gauge', 'sluice_event_loop_lag_seconds', help, [[{}, seconds]], 'max')
  }

  close(): void {
    this.#monitor.disable()
  }
}

/**
 * Lists of open handles, which take time in proportion to their number, and names that are Node's own affair; and what
 * is measured here in a better way.
 */
const LEFT_OUT = /^nodejs_(?:active_|heap_space_|eventloop_lag|version_info)/

/** The event loop is not looked at: its numbers are left out. */
const NEVER_MS = 60_000

/**
 * What a process takes: processor time, memory, descriptors. The library watches the process from the first report on
 * and cannot be told to stop, so this is for whoever owns the process, once.
 * @returns what reports them; the library is loaded at the first report
 */
export function createProcessMetrics(): () => Promise<MetricsReport> {
  let watching: Promise<Registry> | undefined
  return async () => {
    watching ??= watch()
    return (await (await watching).getMetricsAsJSON()) as unknown as MetricsReport
  }
}

async function watch(): Promise<Registry> {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  for (const { name } of registry.getMetricsAsArray()) {
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name)
  }
  return registry
}
