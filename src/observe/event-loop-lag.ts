/**
 * The lag of the event loop: how late it runs what is due, which is the one number that shows whether a worker is overloaded.
 * The metric is the longest delay within the last minute. Reading it changes nothing, so several scrapers read the same.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { ReportedMetric } from './exposition.js'
import { metric } from './series.js'

/** Milliseconds between two samples. The sampling does not keep the process alive. */
const RESOLUTION_MS = 10
const SLOT_MS = 5000
const SLOTS = 12

type DelayMonitor = Pick<ReturnType<typeof monitorEventLoopDelay>, 'enable' | 'disable' | 'reset' | 'max'>

export class EventLoopLag {
  readonly #monitor: DelayMonitor
  readonly #timer: NodeJS.Timeout
  /** The longest time between two samples in each of the last slots, in nanoseconds. */
  #slots: number[] = []

  constructor(monitor: DelayMonitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS })) {
    this.#monitor = monitor
    monitor.enable()
    this.#timer = setInterval(() => this.endSlot(), SLOT_MS).unref()
  }

  /** Runs every five seconds: the slot that ends counts for one minute more. */
  endSlot(): void {
    this.#slots = [...this.#slots, this.#monitor.max].slice(-SLOTS)
    this.#monitor.reset()
  }

  report(): ReportedMetric {
    const longest = Math.max(this.#monitor.max, ...this.#slots)
    const seconds = Math.max(0, longest / 1e6 - RESOLUTION_MS) / 1000
    const help = 'Longest delay of the event loop within the last minute.'
    return metric('gauge', 'sluice_event_loop_lag_seconds', help, [[{}, seconds]], 'max')
  }

  close(): void {
    clearInterval(this.#timer)
    this.#monitor.disable()
  }
}
