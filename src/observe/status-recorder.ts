/**
 * Keeps what the status page shows, in a fixed room: how long things took over the last minutes, what passed in each of the
 * last seconds, what was refused.
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
  /** Asked once a second. */
  readonly totals: () => Totals
}

/** What is asked for when somebody looks. */
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

  /** Samples once a second from here on, until `stop`. */
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

  /** Done once a second. */
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
