/**
 * What a process takes: processor time, memory, descriptors. The library watches the process from here on and can not
 * be told to stop, so this is for whoever owns the process, once.
 */
import { collectDefaultMetrics, Registry } from 'prom-client'

/**
 * Lists of open handles, which take time in proportion to their number, and names that are Node's own affair; and what
 * is measured here in a better way.
 */
const LEFT_OUT = /^nodejs_(?:active_|heap_space_|eventloop_lag|version_info)/

/** The event loop is not looked at: its numbers are left out. */
const NEVER_MS = 60_000

export function createProcessMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  for (const { name } of registry.getMetricsAsArray()) {
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name)
  }
  return registry
}
