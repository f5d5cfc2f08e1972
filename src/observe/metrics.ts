/**
 * The metrics of one proxy, in a registry of its own. All of them are numbers that are kept anyway and read when they
 * are asked for; a report of them is plain JSON, so that those of several workers can be merged.
 */
import { Counter, Gauge, Registry } from 'prom-client'
import { registerEventLoopLag } from './event-loop-lag.js'
import { ExchangeMetrics, type OpenTunnels } from './exchange-metrics.js'
import type { MetricsReport } from './exposition.js'
import { registerUpstreams, type UpstreamHealth } from './upstream-metrics.js'

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
  readonly process: Registry | undefined
}

export const RELOAD_RESULTS = ['applied', 'rejected'] as const

export class Metrics {
  readonly exchanges: ExchangeMetrics
  readonly #registry = new Registry()
  readonly #process: Registry | undefined
  readonly #reloads: Counter<'result'>
  readonly #stopLag: () => void

  constructor(options: MetricsOptions) {
    const registry = this.#registry
    const registers = [registry]
    this.#process = options.process
    this.exchanges = new ExchangeMetrics(registry, options.tunnels)
    registerUpstreams(registry, options.upstreams)
    this.#reloads = new Counter({
      name: 'sluice_config_reloads_total',
      help: 'Reloads of the configuration.',
      labelNames: ['result'],
      registers,
    })
    for (const result of RELOAD_RESULTS) this.#reloads.inc({ result }, 0)
    new Gauge({
      name: 'sluice_config_info',
      help: 'The configuration in force; always 1.',
      labelNames: ['hash'],
      registers,
      aggregator: 'first',
      collect(): void {
        this.reset()
        this.set({ hash: options.configHash() }, 1)
      },
    })
    if (options.build !== undefined) registerBuild(registry, options.build)
    this.#stopLag = registerEventLoopLag(registry)
  }

  /** A configuration was read anew, and taken over or not. */
  configReloaded(result: (typeof RELOAD_RESULTS)[number]): void {
    this.#reloads.inc({ result })
  }

  async report(): Promise<MetricsReport> {
    const [own, process] = await Promise.all([
      this.#registry.getMetricsAsJSON(),
      this.#process?.getMetricsAsJSON() ?? [],
    ])
    return [...own, ...process] as unknown as MetricsReport
  }

  close(): void {
    this.#stopLag()
  }
}

function registerBuild(registry: Registry, { version, node }: BuildInfo): void {
  const gauge = new Gauge({
    name: 'sluice_build_info',
    help: 'The versions of Sluice and of Node; always 1.',
    labelNames: ['version', 'node'],
    registers: [registry],
    aggregator: 'first',
  })
  gauge.set({ version, node }, 1)
}
