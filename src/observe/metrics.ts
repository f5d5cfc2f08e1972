/**
 * The metrics of one proxy. All of them are numbers that are kept anyway and read when they are asked for; a report of
 * them is plain JSON, so that those of several workers can be merged.
 */
import { EventLoopLag } from './event-loop-lag.js'
import { ExchangeMetrics, type OpenTunnels } from './exchange-metrics.js'
import type { MetricsReport } from './exposition.js'
import { ClosedCounter, metric } from './series.js'
import type { UpstreamHealth } from '../origin/create-origins.js'
import { reportUpstreams } from './upstream-metrics.js'

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
    const { configHash, upstreams, build, process } = this.#options
    const processMetrics = (await process?.()) ?? []
    return [
      ...this.exchanges.report(),
      ...reportUpstreams(upstreams()),
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
