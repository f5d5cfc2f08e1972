/** What is counted of the upstreams of `origins`. Their labels stand in the configuration, so they are a closed list. */
import { Counter, Gauge, type Registry } from 'prom-client'

export interface UpstreamHealth {
  /** Host, if any, and path of the origin, as configured. */
  readonly route: string
  /** `scheme://host:port`. */
  readonly upstream: string
  readonly up: boolean
  /** How often it could not be connected to, by the type of the error. */
  readonly failures: ReadonlyMap<string, number>
}

/** @param health asked at each scrape */
export function registerUpstreams(registry: Registry, health: () => readonly UpstreamHealth[]): void {
  new Gauge({
    name: 'sluice_upstream_up',
    help: 'Whether the last attempt to connect to an upstream succeeded; 1 before there was one.',
    labelNames: ['route', 'upstream'],
    registers: [registry],
    // Of several workers: 0 as soon as one of them can not reach it.
    aggregator: 'min',
    collect(): void {
      this.reset()
      for (const { route, upstream, up } of health()) this.set({ route, upstream }, up ? 1 : 0)
    },
  })
  new Counter({
    name: 'sluice_upstream_failures_total',
    help: 'Attempts to connect to an upstream that failed.',
    labelNames: ['route', 'upstream', 'error'],
    registers: [registry],
    collect(): void {
      this.reset()
      for (const { route, upstream, failures } of health()) {
        for (const [error, count] of failures) this.inc({ route, upstream, error }, count)
      }
    },
  })
}
