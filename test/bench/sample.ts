/** One measurement: a load that runs, looked at over a window of time. */
import { pause } from './proxies.js'

/** A load under way. */
export interface Load {
  /** Operations or bytes finished so far. */
  done(): number
  /** What went wrong so far, most recent last. */
  readonly failures: readonly string[]
  readonly latencies?: Latencies
  /** Ends it; resolves when no socket of it is open. */
  stop(): Promise<void>
}

export interface Sample {
  /** Operations or bytes a second. */
  readonly perSecond: number
  /** The same for each second of the proxy's processor time, had it had the whole core; undefined without a proxy. */
  readonly perCpuSecond: number | undefined
  /** Share of one core that the proxy used. */
  readonly cpu: number | undefined
  /** Share of the proxy's core that went to others. */
  readonly others: number | undefined
  /** Milliseconds. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly failures: number
}

/** Above this share of the proxy's core in other hands, what was measured says little. */
export const QUIET = 0.1

/** Readings that only grow, in seconds. */
export interface Meters {
  /** Processor time of the proxy. */
  readonly proxy: () => number
  /** Busy time of its core, whoever for; undefined when it has none of its own. */
  readonly core: (() => number) | undefined
}

/** Milliseconds of single operations, the latest of them. */
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
 * @param warmMs before anything is counted
 * @param meters undefined when no proxy is measured
 * @throws Error when nothing was done at all
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
  if (done === 0) throw new Error(`nothing was done: ${last ?? 'no error'}`)
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
