/** Keeps what the status page shows: the traffic of the last seconds, how long things took, what was refused. */
import type { Config } from '../config/schema.js'
import type { Outcome } from '../outcome.js'
import {
  type DecisionEvent,
  type ExchangeObserver,
  isTunnel,
  type Subject,
} from '../pipeline/exchange-observer.js'
import { LatencyWindow, type Totals, TrafficRing } from './sliding-windows.js'
import { RecentDenials } from './recent-denials.js'
import type { ListedTunnels } from '../tunnel/registry.js'
import type { UpstreamStatus, WorkerStatus } from './worker-status.js'

export interface StatusOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** Asked once a second. */
  readonly totals: () => Totals
}

/** What is asked for when somebody looks. */
export interface StatusSources extends Pick<WorkerStatus, 'worker' | 'pid'> {
  readonly config: Config
  readonly configHash: string
  readonly tunnels: ListedTunnels
  readonly upstreams: readonly UpstreamStatus[]
}

const TICK_MS = 1000

export class StatusRecorder implements ExchangeObserver {
  readonly ignoresAllowed = true
  readonly #options: StatusOptions
  readonly #startedMs: number
  readonly #traffic: TrafficRing
  readonly #denials: RecentDenials
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

  close(subject: Subject, outcome: Outcome, _durationMs: number, { dnsMs }: DecisionEvent): void {
    const { connectMs, firstByteMs, serverName } = outcome
    if ((connectMs !== undefined || dnsMs !== undefined) && !isTunnel(outcome))
      this.tunnelOpened(connectMs, dnsMs)
    if (firstByteMs !== undefined) this.#firstByte.add(firstByteMs)
    if (serverName !== undefined) this.#denials.cut(subject, serverName)
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

  report({ worker, pid, config, configHash, tunnels, upstreams }: StatusSources): WorkerStatus {
    return {
      worker,
      pid,
      startedMs: this.#startedMs,
      configHash,
      busy: this.#busy,
      traffic: this.#traffic.traffic,
      latencies: { dns: this.#dns.counts(), dial: this.#dial.counts(), firstByte: this.#firstByte.counts() },
      tunnels,
      denials: this.#denials.report(config),
      upstreams,
    }
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
