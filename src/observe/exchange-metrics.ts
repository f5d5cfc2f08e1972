/**
 * What is counted of exchanges: requests, refusals, bytes, and the times that names, connections and tunnels took.
 * It is made of the same events as the log, whatever the level of that is.
 */
import { METHOD_NAMES } from '../http/method.js'
import type { ProxyError } from '../errors.js'
import { LIMIT_NAMES, type LimitName } from '../limits/refusals.js'
import type { Outcome } from '../outcome.js'
import {
  DECISIONS,
  type DecisionEvent,
  EXCHANGE_KINDS,
  type ExchangeObserver,
  isTunnel,
  type Subject,
} from '../pipeline/exchange-observer.js'
import type { MetricsReport } from './exposition.js'
import { DENIED_REASONS, DIAL_ERRORS, LIMIT_REASONS } from './refusal-reasons.js'
import { ClosedCounter, Histogram, metric, OTHER } from './series.js'

/** The tunnels, and upgraded connections, which are tunnels too. */
export interface OpenTunnels {
  /** How many are open. */
  readonly size: number
  /** Bytes through all of them so far, those that are closed included; these numbers never fall. */
  readonly bytesUp: number
  readonly bytesDown: number
}

const METHODS: readonly string[] = [...METHOD_NAMES, OTHER]
const METHOD_INDEX = new Map(METHODS.map((method, index) => [method, index]))
/** Status codes have three digits. */
const CODES = 1000

const LOOKUP_BUCKETS = [0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const TUNNEL_BUCKETS = [0.1, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400]

export class ExchangeMetrics implements ExchangeObserver {
  readonly ignoresAllowed = true
  /** By `requestKey`. */
  readonly #requests = new Map<number, number>()
  readonly #denied = new ClosedCounter(
    'sluice_denied_total',
    'Requests that were denied, and tunnels that were cut for their server name.',
    'reason',
    DENIED_REASONS,
  )
  readonly #limits = new ClosedCounter(
    'sluice_limit_rejections_total',
    'Requests that were refused because a limit was reached.',
    'limit',
    [...LIMIT_NAMES, ...LIMIT_REASONS],
  )
  readonly #dialErrors = new ClosedCounter(
    'sluice_dial_errors_total',
    'Exchanges for which no connection upstream was established.',
    'error',
    DIAL_ERRORS,
  )
  readonly #dnsSeconds = new Histogram(
    'sluice_dns_seconds',
    'Time until the addresses of a name were there, from a cache or from DNS.',
    LOOKUP_BUCKETS,
  )
  readonly #dialSeconds = new Histogram(
    'sluice_dial_seconds',
    'Time until a new connection upstream was established, with TLS where there is any.',
    LOOKUP_BUCKETS,
  )
  readonly #tunnelSeconds = new Histogram(
    'sluice_tunnel_duration_seconds',
    'Time from the request for a tunnel to its end.',
    TUNNEL_BUCKETS,
  )
  readonly #tunnels: () => OpenTunnels
  /** Content of exchanges that are over; that of tunnels is counted as it passes. */
  #bytesUp = 0
  #bytesDown = 0

  constructor(tunnels: () => OpenTunnels) {
    this.#tunnels = tunnels
  }

  decision(_subject: Subject, { decision, reason }: DecisionEvent): void {
    if (decision === 'deny') this.#denied.add(reason ?? OTHER)
  }

  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void {
    if (connectMs !== undefined) this.#dialSeconds.observe(connectMs / 1000)
    if (dnsMs !== undefined) this.#dnsSeconds.observe(dnsMs / 1000)
  }

  close(subject: Subject, outcome: Outcome, durationMs: number, { decision, dnsMs }: DecisionEvent): void {
    const { connectMs } = outcome
    const key = requestKey(subject, outcome.status, decision)
    this.#requests.set(key, (this.#requests.get(key) ?? 0) + 1)
    if (isTunnel(outcome)) this.#tunnelSeconds.observe(durationMs / 1000)
    else {
      this.#bytesUp += outcome.bytesUp
      this.#bytesDown += outcome.bytesDown
      if (connectMs !== undefined) this.#dialSeconds.observe(connectMs / 1000)
      if (dnsMs !== undefined) this.#dnsSeconds.observe(dnsMs / 1000)
    }
    if (outcome.serverName !== undefined) this.#denied.add(outcome.serverName.fault)
    if (outcome.error !== undefined) this.#failed(outcome.error, outcome.address)
  }

  /** Something was refused for one of the limits on how much there may be at once, or in a time. */
  limitReached(limit: LimitName): void {
    this.#limits.add(limit)
  }

  report(): MetricsReport {
    const tunnels = this.#tunnels()
    return [
      metric(
        'counter',
        'sluice_requests_total',
        'Requests that are over, by what was asked for, what was decided and the status sent.',
        [...this.#requests].map(([key, count]) => [requestLabels(key), count]),
      ),
      this.#denied.report(),
      this.#limits.report(),
      this.#dialErrors.report(),
      this.#dnsSeconds.report(),
      this.#dialSeconds.report(),
      this.#tunnelSeconds.report(),
      metric(
        'counter',
        'sluice_bytes_total',
        'Content bytes from clients (up) and to clients (down), and all bytes in tunnels.',
        [
          [{ direction: 'up' }, this.#bytesUp + tunnels.bytesUp],
          [{ direction: 'down' }, this.#bytesDown + tunnels.bytesDown],
        ],
      ),
      metric('gauge', 'sluice_tunnels_active', 'Tunnels that are open, and upgraded connections.', [
        [{}, tunnels.size],
      ]),
    ]
  }

  /** Of exchanges that are over. Those that became tunnels are not among the requests, and their bytes not in here. */
  get totals(): { requests: number; denied: number; bytesUp: number; bytesDown: number } {
    let requests = 0
    let denied = 0
    for (const [key, count] of this.#requests) {
      const { kind, decision, code } = requestLabels(key)
      if (decision === 'deny') denied += count
      if (code !== '101' && !(kind === 'connect' && code === '200')) requests += count
    }
    return { requests, denied, bytesUp: this.#bytesUp, bytesDown: this.#bytesDown }
  }

  #failed({ type, reason, side }: ProxyError, address: string | undefined): void {
    this.#limits.add(reason)
    if (address !== undefined) return
    // Out of descriptors is our own fault, and a failure to connect all the same.
    if (side === 'upstream' || type === 'connection_limit_reached') this.#dialErrors.add(type)
  }
}

/** One number for the four labels of a request, as a mixed-radix number. */
function requestKey({ kind, method }: Subject, status: number, decided: DecisionEvent['decision']): number {
  const methodIndex = METHOD_INDEX.get(method) ?? METHODS.length - 1
  const what = EXCHANGE_KINDS.indexOf(kind) * METHODS.length + methodIndex
  return (what * DECISIONS.length + DECISIONS.indexOf(decided)) * CODES + status
}

function requestLabels(key: number): Record<'kind' | 'method' | 'decision' | 'code', string> {
  const decided = Math.floor(key / CODES)
  const what = Math.floor(decided / DECISIONS.length)
  return {
    kind: EXCHANGE_KINDS[Math.floor(what / METHODS.length)] ?? OTHER,
    method: METHODS[what % METHODS.length] ?? OTHER,
    decision: DECISIONS[decided % DECISIONS.length] ?? OTHER,
    code: String(key % CODES),
  }
}
