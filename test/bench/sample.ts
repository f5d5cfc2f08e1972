/** One measurement: a running load, observed for a period of time. */
import { pause } from './proxies.js'

/** A running load. */
export interface Load {
  /** Completed operations or bytes so far. */
  done(): number
  /** Errors so far, the most recent last. */
  readonly failures: readonly string[]
  readonly latencies?: Latencies
  /** Stops it; resolves when all of its sockets are closed. */
  stop(): Promise<void>
}

export interface Sample {
  /** Operations or bytes per second. */
  readonly perSecond: number
  /** The same per second of the proxy's processor time; undefined without a proxy. */
  readonly perCpuSecond: number | undefined
  /** The share of its core that the proxy used. */
  readonly cpu: number | undefined
  /** The share of the proxy's core that other processes used. */
  readonly others: number | undefined
  /** Milliseconds. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly failures: number
}

/** If other processes used more than this share of the proxy's core, the sample is not meaningful. */
export const QUIET = 0.1

/** Counters that only increase, in seconds. */
export interface Meters {
  /** The processor time of the proxy. */
  readonly proxy: () => number
  /** The busy time of its core, for any process; undefined if it is not pinned to a core. */
  readonly core: (() => number) | undefined
}

/** The times of the latest operations, in milliseconds. */
export class Latencies {
  readonly #values = new Float64Array(1 << 19)
  #count = 0

  add(ms: number): void {
    this.#values[this.#count % this.#values.length] = ms
    this.#count += 1
  }

  reset(): void {
    this.#count = 0
  }

  /** @param ranks between 0 and 1 */
  at(...ranks: readonly number[]): (number | undefined)[] {
    const sorted = this.#values.slice(0, Math.min(this.#count, this.#values.length)).sort()
    return ranks.map(rank => sorted[Math.min(sorted.length - 1, Math.floor(rank * sorted.length))])
  }
}

/**
 * @param warmMs milliseconds before anything is counted
 * @param meters undefined if no proxy is measured
 * @throws Error if no operation was completed
 */
export async function takeSample(
  load: Load,
  warmMs: number,
  measureMs: number,
  meters: Meters | undefined,
): Promise<Sample> {
  await pause(warmMs)
  load.latencies?.reset()
  const failuresBefore = load.failures.length
  const doneBefore = load.done()
  const cpuBefore = meters?.proxy() ?? 0
  const coreBefore = meters?.core?.() ?? 0
  const started = performance.now()
  await pause(measureMs)
  const seconds = (performance.now() - started) / 1000
  const done = load.done() - doneBefore
  const cpuUsed = meters === undefined ? undefined : meters.proxy() - cpuBefore
  const coreUsed = meters?.core === undefined ? undefined : meters.core() - coreBefore
  const [p50, p99] = load.latencies?.at(0.5, 0.99) ?? []
  await load.stop()
  const last = load.failures.at(-1)
  if (done === 0) throw new Error(`no operation was completed: ${last ?? 'no error'}`)
  return {
    perSecond: done / seconds,
    perCpuSecond: cpuUsed === undefined ? undefined : done / cpuUsed,
    cpu: cpuUsed === undefined ? undefined : cpuUsed / seconds,
    others:
      cpuUsed === undefined || coreUsed === undefined ? undefined : Math.max(0, coreUsed - cpuUsed) / seconds,
    p50,
    p99,
    failures: load.failures.length - failuresBefore,
  }
}
