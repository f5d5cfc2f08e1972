/**
 * The metrics of one proxy. All of them are numbers that are kept anyway and read when they are asked for; a report of
 * them is plain JSON, so that those of several workers can be merged.
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
  /** Of the configuration in force. */
  readonly certificates: () => readonly CertificateExpiry[]
  /** How many lines the log of this process has lost. */
  readonly lostLogLines: () => number
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
  #workerRestarts = 0

  constructor(options: MetricsOptions) {
    this.#options = options
    this.exchanges = new ExchangeMetrics(options.tunnels)
  }

  /** A configuration was read anew, and taken over or not. */
  configReloaded(result: (typeof RELOAD_RESULTS)[number]): void {
    this.#reloads.add(result)
  }

  /** A worker process was started in place of one that had ended. */
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
        'Worker processes that were started in place of one that had ended.',
        [[{}, this.#workerRestarts]],
      ),
      metric('counter', 'sluice_log_lines_lost_total', 'Lines of the log that could not be written.', [
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
    'When the certificates of a file expire: the first of the own chain, the last of authorities.',
    certificates.map(({ key, expiresMs }) => [{ key }, expiresMs / 1000]),
    // All workers have the same.
    'min',
  )
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
