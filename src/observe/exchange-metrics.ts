/**
 * The metrics of exchanges: requests, refusals, failures, bytes, and how long name resolution, connecting, responses and
 * tunnels took. They come from the same events as the log, at any log level.
 */
import { METHOD_NAMES } from '../http/method.js'
import type { ProxyError } from '../errors.js'
import { LIMIT_NAMES, type LimitName } from '../limits/refusals.js'
import { CACHE_RESULTS, type CacheResult, type Outcome } from '../outcome.js'
import { type CacheCounts, isAnswered } from './cache-report.js'
import {
  DECISIONS,
  type DecisionEvent,
  EXCHANGE_KINDS,
  type ExchangeObserver,
  type Subject,
} from '../pipeline/exchange-observer.js'
import type { MetricsReport } from './exposition.js'
import { FAILURE_REASONS, isFailure } from './failure-reasons.js'
import { DENIED_REASONS, DIAL_ERRORS, LIMIT_REASONS } from './refusal-reasons.js'
import { ClosedCounter, Histogram, metric, OTHER } from './series.js'

/** Tunnels, including upgraded connections. */
export interface OpenTunnels {
  /** The number of open tunnels. */
  readonly size: number
  /** Bytes of all tunnels so far, including closed ones; these numbers never decrease. */
  readonly bytesUp: number
  readonly bytesDown: number
}

const METHODS: readonly string[] = [...METHOD_NAMES, OTHER]
/** Status codes have three digits. */
const CODES = 1000
/**
 * What each label adds to the key of a request. The key is one number for all four labels, in mixed radix; its lowest place
 * is the status.
 */
const DECISION_KEYS = keys(DECISIONS, CODES)
const METHOD_KEYS = keys(METHODS, CODES * DECISIONS.length)
const KIND_KEYS = keys(EXCHANGE_KINDS, CODES * DECISIONS.length * METHODS.length)
const OTHER_METHOD = METHOD_KEYS.get(OTHER) ?? 0

/** The count of requests that have the same four labels. */
interface RequestCount {
  readonly kind: string
  readonly method: string
  readonly decision: string
  readonly status: number
  /** Whether these requests became tunnels, by CONNECT or by an upgrade. */
  readonly isTunnel: boolean
  count: number
}

const LOOKUP_BUCKETS = [0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** From a response out of the cache to a download, or to a response that never came. */
const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const FIRST_BYTE_BUCKETS = REQUEST_BUCKETS.slice(0, -1)
const TUNNEL_BUCKETS = [0.1, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400]

export class ExchangeMetrics implements ExchangeObserver {
  readonly ignoresAllowed = true
  readonly #requests = new Map<number, RequestCount>()
  readonly #denied = new ClosedCounter(
    'sluice_denied_total',
    'Denied requests, and tunnels cut for their server name.',
    'reason',
    DENIED_REASONS,
  )
  readonly #limits = new ClosedCounter(
    'sluice_limit_rejections_total',
    'Requests refused because a limit was reached.',
    'limit',
    [...LIMIT_NAMES, ...LIMIT_REASONS],
  )
  readonly #failures = new ClosedCounter(
    'sluice_failures_total',
    'Allowed requests that failed: DNS, connecting, TLS, a parent, the response, or Sluice itself.',
    'reason',
    FAILURE_REASONS,
  )
  readonly #dialErrors = new ClosedCounter(
    'sluice_dial_errors_total',
    'Requests whose upstream connection failed.',
    'error',
    DIAL_ERRORS,
  )
  readonly #dnsSeconds = new Histogram(
    'sluice_dns_seconds',
    'Time until the addresses of a name were known, from the DNS cache or from a DNS server.',
    LOOKUP_BUCKETS,
  )
  readonly #dialSeconds = new Histogram(
    'sluice_dial_seconds',
    'Time until a new upstream connection was established, including TLS.',
    LOOKUP_BUCKETS,
  )
  readonly #requestSeconds = new Histogram(
    'sluice_request_duration_seconds',
    'Time from the head of an allowed request to the end of its response, tunnels excluded.',
    REQUEST_BUCKETS,
  )
  readonly #firstByteSeconds = new Histogram(
    'sluice_first_byte_seconds',
    'Time from passing a request on to the head of its response, from upstream or from the cache.',
    FIRST_BYTE_BUCKETS,
  )
  readonly #tunnelSeconds = new Histogram(
    'sluice_tunnel_duration_seconds',
    'Time from the request for a tunnel to its end.',
    TUNNEL_BUCKETS,
  )
  readonly #cacheResults = new ClosedCounter<CacheResult>(
    'sluice_cache_requests_total',
    'Requests that have ended, by the result of the cache.',
    'result',
    CACHE_RESULTS,
  )
  /** Content bytes of responses served from the cache. */
  #cacheBytes = 0
  readonly #tunnels: () => OpenTunnels
  /** Content bytes of exchanges that have ended; the bytes of tunnels are counted as they pass. */
  #bytesUp = 0
  #bytesDown = 0
  #failed = 0
  /** Tunnels that were cut for their server name. */
  #cut = 0
  /** Requests that would have been denied if their client were not only observed. */
  #wouldDeny = 0

  constructor(tunnels: () => OpenTunnels) {
    this.#tunnels = tunnels
  }

  decision(_subject: Subject, { decision, reason }: DecisionEvent): void {
    if (decision === 'deny') this.#denied.add(reason ?? OTHER)
    else if (decision === 'would_deny') this.#wouldDeny += 1
  }

  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void {
    if (connectMs !== undefined) this.#dialSeconds.observe(connectMs / 1000)
    if (dnsMs !== undefined) this.#dnsSeconds.observe(dnsMs / 1000)
  }

  /** Runs for every exchange, so the two histograms of all requests are updated in place instead of by a call. */
  close(subject: Subject, outcome: Outcome, durationMs: number, { decision, dnsMs }: DecisionEvent): void {
    const { status, connectMs, firstByteMs } = outcome
    const method = METHOD_KEYS.get(subject.method) ?? OTHER_METHOD
    const key = (KIND_KEYS.get(subject.kind) ?? 0) + method + (DECISION_KEYS.get(decision) ?? 0) + status
    const requests = this.#requests.get(key) ?? this.#addCount(key, subject, status, decision)
    requests.count += 1
    if (requests.isTunnel) this.#tunnelSeconds.observe(durationMs / 1000)
    else {
      this.#bytesUp += outcome.bytesUp
      this.#bytesDown += outcome.bytesDown
      if (connectMs !== undefined) this.#dialSeconds.observe(connectMs / 1000)
      if (dnsMs !== undefined) this.#dnsSeconds.observe(dnsMs / 1000)
      if (decision !== 'deny') {
        const { bounds, counts } = this.#requestSeconds
        const seconds = durationMs / 1000
        let bucket = 0
        while (seconds > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
        counts[bucket] = (counts[bucket] ?? 0) + 1
        this.#requestSeconds.sum += seconds
      }
    }
    if (firstByteMs !== undefined) {
      const { bounds, counts } = this.#firstByteSeconds
      const seconds = firstByteMs / 1000
      let bucket = 0
      while (seconds > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
      counts[bucket] = (counts[bucket] ?? 0) + 1
      this.#firstByteSeconds.sum += seconds
    }
    if (outcome.cache !== undefined) {
      this.#cacheResults.add(outcome.cache.result)
      if (isAnswered(outcome.cache.result)) this.#cacheBytes += outcome.bytesDown
    }
    if (outcome.serverName !== undefined) {
      this.#denied.add(outcome.serverName.fault)
      this.#cut += 1
    }
    if (outcome.error !== undefined) this.#fail(outcome.error, outcome.address, decision)
  }

  /** A request or connection was refused because one of the `limits` was reached. */
  limitReached(limit: LimitName): void {
    this.#limits.add(limit)
  }

  report(): MetricsReport {
    const tunnels = this.#tunnels()
    return [
      metric(
        'counter',
        'sluice_requests_total',
        'Requests that have ended, by kind, method, decision and status sent.',
        [...this.#requests.values()].map(({ kind, method, decision, status, count }) => [
          { kind, method, decision, code: String(status) },
          count,
        ]),
      ),
      this.#denied.report(),
      this.#limits.report(),
      this.#failures.report(),
      this.#dialErrors.report(),
      this.#dnsSeconds.report(),
      this.#dialSeconds.report(),
      this.#requestSeconds.report(),
      this.#firstByteSeconds.report(),
      this.#tunnelSeconds.report(),
      metric(
        'counter',
        'sluice_bytes_total',
        'Content bytes from clients (up) and to clients (down), and all bytes of tunnels.',
        [
          [{ direction: 'up' }, this.#bytesUp + tunnels.bytesUp],
          [{ direction: 'down' }, this.#bytesDown + tunnels.bytesDown],
        ],
      ),
      metric('gauge', 'sluice_tunnels_active', 'Open tunnels, including upgraded connections.', [
        [{}, tunnels.size],
      ]),
      this.#cacheResults.report(),
      metric(
        'counter',
        'sluice_cache_served_bytes_total',
        'Content bytes of responses served from the cache.',
        [[{}, this.#cacheBytes]],
      ),
    ]
  }

  /**
   * Totals of exchanges that have ended, except `wouldDeny`: these count when they are decided, because a tunnel stays open.
   * Tunnels are not among the requests, and their bytes are not included; `denied` has those that were cut.
   */
  get totals(): Readonly<
    Record<'requests' | 'denied' | 'wouldDeny' | 'failed' | 'bytesUp' | 'bytesDown', number>
  > {
    let requests = 0
    let denied = this.#cut
    for (const { decision, isTunnel, count } of this.#requests.values()) {
      if (decision === 'deny') denied += count
      if (!isTunnel) requests += count
    }
    return {
      requests,
      denied,
      wouldDeny: this.#wouldDeny,
      failed: this.#failed,
      bytesUp: this.#bytesUp,
      bytesDown: this.#bytesDown,
    }
  }

  /** The counts of the cache so far. */
  get cache(): CacheCounts {
    return { results: this.#cacheResults.counts(), servedBytes: this.#cacheBytes }
  }

  /** Adds a count for labels that occur for the first time. */
  #addCount(
    key: number,
    { kind, method: name }: Subject,
    status: number,
    decision: DecisionEvent['decision'],
  ): RequestCount {
    const method = METHOD_KEYS.has(name) ? name : OTHER
    const isTunnel = status === 101 || (kind === 'connect' && status === 200)
    const requests = { kind, method, decision, status, isTunnel, count: 0 }
    this.#requests.set(key, requests)
    return requests
  }

  #fail(error: ProxyError, address: string | undefined, decision: DecisionEvent['decision']): void {
    const { type, reason, side } = error
    this.#limits.add(reason)
    if (isFailure(error, decision)) {
      this.#failures.add(reason)
      this.#failed += 1
    }
    if (address !== undefined) return
    // Running out of descriptors is a fault of this process, and also a failure to connect.
    if (side === 'upstream' || type === 'connection_limit_reached') this.#dialErrors.add(type)
  }
}

/** @returns what each value of a label adds to the key: its index in the list times `radix` */
function keys<T extends string>(values: readonly T[], radix: number): ReadonlyMap<string, number> {
  return new Map(values.map((value, index) => [value, index * radix]))
}
