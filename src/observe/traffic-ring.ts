/** What passed in each of the last seconds. */
import { SERIES, type Traffic } from './worker-status.js'

/** Numbers that only grow, but for `tunnels`, which is how many are open now. */
export type Totals = Readonly<Record<(typeof SERIES)[number], number>>

/** A quarter of an hour. */
export const TRAFFIC_SECONDS = 900

const SECOND_MS = 1000

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
