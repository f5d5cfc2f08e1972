/** How late the event loop runs what is due: the one number that says whether a worker is overloaded. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Gauge, type Registry } from 'prom-client'

/** Milliseconds between two looks. They do not keep the process alive. */
const RESOLUTION_MS = 10

/** @returns what ends it */
export function registerEventLoopLag(registry: Registry): () => void {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  monitor.enable()
  new Gauge({
    name: 'sluice_event_loop_lag_seconds',
    help: 'Longest delay of the event loop since the last scrape.',
    registers: [registry],
    aggregator: 'max',
    collect(): void {
      // What is recorded is the time between two looks.
      this.set(Math.max(0, monitor.max / 1e6 - RESOLUTION_MS) / 1000)
      monitor.reset()
    },
  })
  return () => void monitor.disable()
}
