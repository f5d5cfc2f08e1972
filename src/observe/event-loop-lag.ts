/** How late the event loop runs what is due: the one number that says whether a worker is overloaded. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { ReportedMetric } from './exposition.js'
import { metric } from './series.js'

/** Milliseconds between two looks. They do not keep the process alive. */
const RESOLUTION_MS = 10

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
