/**
 * The metrics of one proxy. The numbers are kept by their owners and read when metrics are requested. A report is plain JSON,
 * so that the reports of several workers can be merged.
 */
import type { Registry } from 'prom-client'
import type { CertificateExpiry } from '../tls/certificate-expiry.js'
import { cacheMetrics, type OperatedCache } from './cache-report.js'
import { EventLoopLag } from './event-loop-lag.js'
import { ExchangeMetrics, type OpenTunnels } from './exchange-metrics.js'
import type { MetricsReport } from './exposition.js'
import { ClosedCounter, metric } from './series.js'
import { reportUpstreams, type UpstreamHealth } from './upstream-health.js'

export interface BuildInfo {
  /** The version of Sluice. */
  readonly version: string
  /** The version of Node. */
  readonly node: string
}

/** Sources of the numbers that others keep; each is called for every report. */
export interface MetricsOptions {
  readonly configHash: () => string
  readonly tunnels: () => OpenTunnels
  readonly upstreams: () => readonly UpstreamHealth[]
  readonly cache: () => OperatedCache | undefined
  /** The certificates of the configuration in force. */
  readonly certificates: () => readonly CertificateExpiry[]
  /** The number of lines that the log of this process has lost. */
  readonly lostLogLines: () => number
  readonly build: BuildInfo | undefined
  /** The metrics of the process; undefined if this proxy does not report them. */
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
  #workerRestarts = 0

  constructor(options: MetricsOptions) {
    this.#options = options
    this.exchanges = new ExchangeMetrics(options.tunnels)
  }

  /** The configuration was read again, and applied or rejected. */
  configReloaded(result: (typeof RELOAD_RESULTS)[number]): void {
    this.#reloads.add(result)
  }

  /** A worker process was started in place of one that ended. */
  workerRestarted(): void {
    this.#workerRestarts += 1
  }

  async report(): Promise<MetricsReport> {
    const { configHash, upstreams, cache, certificates, lostLogLines, build, process } = this.#options
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
      metric(
        'counter',
        'sluice_worker_restarts_total',
        'Worker processes started in place of one that ended.',
        [[{}, this.#workerRestarts]],
      ),
      metric('counter', 'sluice_log_lines_lost_total', 'Log lines that could not be written.', [
        [{}, lostLogLines()],
      ]),
      reportCertificates(certificates()),
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

function reportCertificates(certificates: readonly CertificateExpiry[]): MetricsReport[number] {
  return metric(
    'gauge',
    'sluice_certificate_expiry_timestamp_seconds',
    'When the certificates of a file expire: the first one of the own chain, the last one of authorities.',
    certificates.map(({ key, expiresMs }) => [{ key }, expiresMs / 1000]),
    // All workers have the same files.
    'min',
  )
}

/**
 * Metrics of the library that are left out: lists of open handles, which take time in proportion to their number, internals
 * of Node, and the event loop's lag, which is measured here.
 */
const LEFT_OUT = /^nodejs_(?:active_|heap_space_|eventloop_lag|version_info)/

/** The library does not measure the event loop, because its numbers are left out. */
const NEVER_MS = 60_000

/**
 * The metrics of the process: processor time, memory, descriptors. The library observes the process from the first report on
 * and cannot be stopped, so this is called once for a process, by its owner.
 * @returns a function that reports them; it loads the library at its first call
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
