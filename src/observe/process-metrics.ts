/**
 * What a process takes: processor time, memory, descriptors. The library watches the process from the first report on
 * and cannot be told to stop, so this is for whoever owns the process, once.
 */
import type { Registry } from 'prom-client'
import type { MetricsReport } from './exposition.js'

/**
 * Lists of open handles, which take time in proportion to their number, and names that are Node's own affair; and what
 * is measured here in a better way.
 */
const LEFT_OUT = /^nodejs_(?:active_|heap_space_|eventloop_lag|version_info)/

/** The event loop is not looked at: its numbers are left out. */
const NEVER_MS = 60_000

/** @returns what reports them; the library is loaded at the first report */
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
