/**
 * What happened lately, kept in a fixed room: how long things took over the last minutes, and what passed in each of the last
 * seconds.
 */
import { SERIES, type Traffic } from './worker-status.js'

/** The upper end of the first bucket, in milliseconds, and by how much each is wider than the one before. */
const FIRST_MS = 0.05
const GROWTH = 1.2
/** The last holds all from about two minutes on. */
const BUCKETS = 82
const LOG_GROWTH = Math.log(GROWTH)

const SLOT_MS = 30_000
const SLOTS = 10

/** How far back it goes. */
export const LATENCY_WINDOW_MS = SLOT_MS * SLOTS

/**
 * How long something took lately: counts in buckets that grow by a fifth, over the last minutes. Quantiles of it are
 * right to a tenth, and counts of several workers can be added.
 */
export class LatencyWindow {
  readonly #slots = Array.from({ length: SLOTS }, () => new Uint32Array(BUCKETS))
  #slot = 0

  add(ms: number): void {
    const last = BUCKETS - 1
    const bucket = ms > FIRST_MS ? Math.min(last, Math.ceil(Math.log(ms / FIRST_MS) / LOG_GROWTH)) : 0
    const counts = this.#slots[this.#slot % SLOTS]
    if (counts !== undefined) counts[bucket] = (counts[bucket] ?? 0) + 1
  }

  /**
   * Forgets what is too old; to be called once a second or so.
   * @param now milliseconds, monotonic
   */
  advance(now: number): void {
    const slot = Math.floor(now / SLOT_MS)
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) {
      this.#slots[next % SLOTS]?.fill(0)
    }
    this.#slot = Math.max(this.#slot, slot)
  }

  /** How often each bucket was met. */
  counts(): number[] {
    return Array.from({ length: BUCKETS }, (_, bucket) =>
      this.#slots.reduce((sum, counts) => sum + (counts[bucket] ?? 0), 0),
    )
  }
}

/**
 * @param counts as LatencyWindow has them
 * @param q from 0 to 1
 * @returns milliseconds, or undefined where nothing was counted
 */
export function quantile(counts: readonly number[], q: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const rank = q * total
  let before = 0
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) {
      const part = Math.max(0, rank - before) / count
      const lower = bucket === 0 ? 0 : upperEnd(bucket - 1)
      return lower + (upperEnd(bucket) - lower) * part
    }
    before += count
  }
  return upperEnd(BUCKETS - 1)
}

function upperEnd(bucket: number): number {
  return FIRST_MS * GROWTH ** bucket
}

/** Numbers that only grow, but for `tunnels`, which is how many are open now. */
export type Totals = Readonly<Record<(typeof SERIES)[number], number>>

/** A quarter of an hour. */
export const TRAFFIC_SECONDS = 900

const SECOND_MS = 1000

/** What passed in each of the last seconds. */
export class TrafficRing {
  readonly #samples = new Map<keyof Totals, number[]>(SERIES.map(name => [name, []]))
  #last: Totals
  #lastAt: number
  #second: number

  /**
   * @param now milliseconds since the epoch
   * @param totals so far
   */
  constructor(now: number, totals: Totals) {
    this.#last = totals
    this.#lastAt = now
    this.#second = Math.floor(now / SECOND_MS)
  }

  /**
   * Writes down what has passed since the last time, for the seconds that are over: to be called about once a second. One
   * that was called late stands for all the seconds since, in equal parts.
   */
  sample(now: number, totals: Totals): void {
    const second = Math.floor(now / SECOND_MS)
    if (second < this.#second) this.#second = second
    const seconds = Math.min(second - this.#second, TRAFFIC_SECONDS)
    if (seconds === 0) return
    const elapsed = Math.max(now - this.#lastAt, 1) / SECOND_MS
    for (const [name, samples] of this.#samples) {
      const value = name === 'tunnels' ? totals[name] : (totals[name] - this.#last[name]) / elapsed
      for (let i = 0; i < seconds; i++) samples.push(Math.round(value * 100) / 100)
      if (samples.length > TRAFFIC_SECONDS) samples.splice(0, samples.length - TRAFFIC_SECONDS)
    }
    this.#last = totals
    this.#lastAt = now
    this.#second = second
  }

  get traffic(): Traffic {
    const lists = SERIES.map(name => [name, [...(this.#samples.get(name) ?? [])]] as const)
    const series = Object.fromEntries(lists) as Record<keyof Totals, number[]>
    return { endSecond: this.#second - 1, ...series }
  }
}
