/**
 * Records what the status page shows, in a fixed amount of memory: durations over the last minutes, traffic in each of the
 * last seconds, recent refusals and failures.
 */
import type { Config } from '../config/schema.js'
import type { Outcome } from '../outcome.js'
import {
  type DecisionEvent,
  type ExchangeObserver,
  isTunnel,
  type Subject,
} from '../pipeline/exchange-observer.js'
import { isFailure } from './failure-reasons.js'
import { RecentDenials } from './recent-denials.js'
import { RecentFailures } from './recent-failures.js'
import type { ListedTunnels, TunnelShare } from '../tunnel/registry.js'
import { SERIES, type Traffic, type UpstreamStatus, type WorkerStatus } from './worker-status.js'

export interface StatusOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** Called once a second. */
  readonly totals: () => Totals
}

/** What is read when the status is requested. */
export interface StatusSources extends Pick<WorkerStatus, 'worker' | 'pid' | 'cache'> {
  readonly config: Config
  readonly configHash: string
  readonly tunnels: ListedTunnels
  readonly shares: readonly TunnelShare[]
  readonly upstreams: readonly UpstreamStatus[]
}

const TICK_MS = 1000

export class StatusRecorder implements ExchangeObserver {
  readonly ignoresAllowed = true
  readonly #options: StatusOptions
  readonly #startedMs: number
  readonly #traffic: TrafficRing
  readonly #denials: RecentDenials
  readonly #failures: RecentFailures
  readonly #dns = new LatencyWindow()
  readonly #dial = new LatencyWindow()
  readonly #firstByte = new LatencyWindow()
  #timer: NodeJS.Timeout | undefined
  #loop = performance.eventLoopUtilization()
  #busy = 0

  constructor(options: StatusOptions) {
    this.#options = options
    this.#startedMs = options.wallClock()
    this.#traffic = new TrafficRing(this.#startedMs, options.totals())
    this.#denials = new RecentDenials(options.wallClock)
    this.#failures = new RecentFailures(options.wallClock)
  }

  /** Samples once a second until `stop`. */
  start(): void {
    this.#timer ??= setInterval(() => this.sample(), TICK_MS).unref()
  }

  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    this.#denials.decision(subject, event, configHash)
  }

  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void {
    if (connectMs !== undefined) this.#dial.add(connectMs)
    if (dnsMs !== undefined) this.#dns.add(dnsMs)
  }

  close(subject: Subject, outcome: Outcome, _durationMs: number, event: DecisionEvent): void {
    const { connectMs, firstByteMs, serverName, error } = outcome
    const { dnsMs } = event
    if ((connectMs !== undefined || dnsMs !== undefined) && !isTunnel(outcome))
      this.tunnelOpened(connectMs, dnsMs)
    if (firstByteMs !== undefined) this.#firstByte.add(firstByteMs)
    if (serverName !== undefined) this.#denials.cut(subject, serverName)
    if (error !== undefined && isFailure(error, event.decision))
      this.#failures.add(subject, error, event, outcome.parent)
  }

  /** Runs once a second. */
  sample(): void {
    const { now, wallClock, totals } = this.#options
    this.#traffic.sample(wallClock(), totals())
    const monotonic = now()
    for (const window of [this.#dns, this.#dial, this.#firstByte]) window.advance(monotonic)
    const loop = performance.eventLoopUtilization()
    this.#busy = performance.eventLoopUtilization(loop, this.#loop).utilization
    this.#loop = loop
  }

  report({
    worker,
    pid,
    config,
    configHash,
    tunnels,
    shares,
    upstreams,
    cache,
  }: StatusSources): WorkerStatus {
    return {
      worker,
      pid,
      startedMs: this.#startedMs,
      configHash,
      busy: this.#busy,
      traffic: this.#traffic.traffic,
      latencies: { dns: this.#dns.counts(), dial: this.#dial.counts(), firstByte: this.#firstByte.counts() },
      tunnels,
      shares,
      denials: this.#denials.report(config),
      failures: this.#failures.report(),
      upstreams,
      cache,
    }
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}

/** The upper bound of the first bucket, in milliseconds, and the factor between the bounds of two buckets. */
const FIRST_MS = 0.05
const GROWTH = 1.2
/** The last bucket counts all durations of about two minutes and more. */
const BUCKETS = 82
const LOG_GROWTH = Math.log(GROWTH)

const SLOT_MS = 30_000
const SLOTS = 10

/** The length of the window. */
export const LATENCY_WINDOW_MS = SLOT_MS * SLOTS

/**
 * Recent durations: counts in buckets, each wider than the one before by a fifth, over the last minutes. Quantiles are
 * accurate to a tenth, and the counts of several workers can be added up.
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
   * Drops what is older than the window; to be called about once a second.
   * @param now milliseconds, monotonic
   */
  advance(now: number): void {
    const slot = Math.floor(now / SLOT_MS)
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) {
      this.#slots[next % SLOTS]?.fill(0)
    }
    this.#slot = Math.max(this.#slot, slot)
  }

  /** The counts of the buckets. */
  counts(): number[] {
    return Array.from({ length: BUCKETS }, (_, bucket) =>
      this.#slots.reduce((sum, counts) => sum + (counts[bucket] ?? 0), 0),
    )
  }
}

/**
 * @param counts of a LatencyWindow
 * @param q from 0 to 1
 * @returns milliseconds, or undefined if nothing was counted
 */
export function quantile(counts: readonly number[], q: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const rank = q * total
  let before = 0
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) {
      const part = Math.max(0, rank - before) / count
      const lower = bucket === 0 ? 0 : upperBound(bucket - 1)
      return lower + (upperBound(bucket) - lower) * part
    }
    before += count
  }
  return upperBound(BUCKETS - 1)
}

function upperBound(bucket: number): number {
  return FIRST_MS * GROWTH ** bucket
}

/** Totals, which never decrease, except `tunnels`: the number of tunnels that are open now. */
export type Totals = Readonly<Record<(typeof SERIES)[number], number>>

/** The length of the history: a quarter of an hour. */
export const TRAFFIC_SECONDS = 900

const SECOND_MS = 1000

/** The traffic in each of the last seconds. */
export class TrafficRing {
  readonly #samples = new Map<keyof Totals, number[]>(SERIES.map(name => [name, []]))
  #last: Totals
  #second: number

  /**
   * @param now milliseconds since the epoch
   * @param totals the totals so far
   */
  constructor(now: number, totals: Totals) {
    this.#last = totals
    this.#second = Math.floor(now / SECOND_MS)
  }

  /**
   * Records the traffic since the last call for the seconds that have ended; to be called about once a second. If it is
   * called late, the traffic is divided among the seconds since, in whole numbers: what is recorded always adds up to the
   * totals, however late the calls come.
   */
  sample(now: number, totals: Totals): void {
    const second = Math.floor(now / SECOND_MS)
    if (second < this.#second) this.#second = second
    const seconds = Math.min(second - this.#second, TRAFFIC_SECONDS)
    if (seconds === 0) return
    for (const [name, samples] of this.#samples) {
      const passed = totals[name] - this.#last[name]
      const until = (i: number): number => Math.floor((i * passed) / seconds)
      for (let i = 0; i < seconds; i++)
        samples.push(name === 'tunnels' ? totals.tunnels : until(i + 1) - until(i))
      if (samples.length > TRAFFIC_SECONDS) samples.splice(0, samples.length - TRAFFIC_SECONDS)
    }
    this.#last = totals
    this.#second = second
  }

  get traffic(): Traffic {
    const lists = SERIES.map(name => [name, [...(this.#samples.get(name) ?? [])]] as const)
    const series = Object.fromEntries(lists) as Record<keyof Totals, number[]>
    return { endSecond: this.#second - 1, ...series }
  }
}
