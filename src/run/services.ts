/** Services live as long as the process: created once, and shared by all configurations that follow each other. */
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { BcryptThread } from '../clients/bcrypt-thread.js'
import { FailedAttempts } from '../clients/failed-attempts.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { Lookups, type NameEnvironment } from '../dns/resolve.js'
import { createHttpDate } from '../http/date.js'
import { type Descriptors, NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { type Ledger, LocalLedger } from '../limits/ledger.js'
import type { LimitName } from '../limits/refusals.js'
import { Shares } from '../limits/shares.js'
import type { OperatedCache } from '../observe/cache-report.js'
import type { MetricsReport } from '../observe/exposition.js'
import { type BuildInfo, Metrics } from '../observe/metrics.js'
import { StatusRecorder } from '../observe/status-recorder.js'
import type { UpstreamHealth } from '../observe/upstream-health.js'
import type { ExchangeObserver } from '../pipeline/exchange-observer.js'
import type { CertificateExpiry } from '../tls/certificate-expiry.js'
import { openSpanExport, type SpanExport } from '../tracing/span-export.js'
import { ReadBuffers } from '../tunnel/socket-reader.js'
import { TunnelRegistry } from '../tunnel/registry.js'
import type { SocketFactory, Dialer } from '../upstream/dial.js'
import { Caches } from './caches.js'

/** The environment of the services, parts of which tests replace. */
export interface ServiceEnvironment extends NameEnvironment {
  readonly logger: Logger
  /** A random text, generated at the start; part of the name in Via and of every exchange id. */
  readonly startId: string
  /** Shown in the metrics. */
  readonly build?: BuildInfo
  /** Metrics of the process, from `createProcessMetrics`, reported with those of this proxy. */
  readonly processMetrics?: () => Promise<MetricsReport>
  /** The number of lines that the log has lost; absent when unknown. */
  readonly lostLogLines?: () => number
  /** Instead of a count of failed attempts of its own. */
  readonly attempts?: FailedAttempts
  readonly connector?: SocketFactory
  readonly descriptors?: Descriptors
  /** Milliseconds, monotonic. */
  readonly now?: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  /** Where reservations are counted; by default in this process. */
  readonly ledger?: Ledger
}

/** The parts of the current runtime that the services use. */
export interface CurrentRuntime {
  readonly config: Config
  readonly hash: string
  readonly dialer: Dialer
  /** Undefined without a cache. */
  readonly cache: OperatedCache | undefined
  upstreamHealth(): readonly UpstreamHealth[]
  certificates(): readonly CertificateExpiry[]
}

/** Holds the current one of several values that follow each other. */
export class Current<T> {
  #value: T | undefined

  get value(): T {
    if (this.#value === undefined) throw new TypeError('no current value yet')
    return this.#value
  }

  set value(value: T) {
    this.#value = value
  }
}

export interface Services {
  readonly logger: Logger
  readonly startId: string
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** The current HTTP-date. */
  readonly date: () => string
  readonly connector: SocketFactory | undefined
  readonly descriptors: Descriptors
  readonly lookups: Lookups
  readonly passwords: BcryptThread
  readonly attempts: FailedAttempts
  /** Random bytes, generated at the start. */
  readonly credentialKey: Uint8Array
  readonly shares: Shares
  readonly buffers: ReadBuffers
  readonly tunnels: TunnelRegistry
  readonly caches: Caches
  readonly metrics: Metrics
  readonly recorder: StatusRecorder
  /** Undefined when nothing is traced. */
  readonly spans: SpanExport | undefined
  /** Notified of every exchange, after the log. */
  readonly observers: readonly ExchangeObserver[]
}

/**
 * @param runtime must have a value before anything is served
 * @param instance distinguishes this process from others of the same start
 * @throws TracingUnavailable when the packages of `tracing` are not installed
 */
export async function openServices(
  { config, files }: Pick<Loaded, 'config' | 'files'>,
  environment: ServiceEnvironment,
  runtime: Current<CurrentRuntime>,
  instance: string,
): Promise<Services> {
  const { logger, startId, build, connector, descriptors = NO_DESCRIPTOR_KEPT } = environment
  const { now = performance.now.bind(performance), wallClock = Date.now } = environment
  const { tracing } = config
  const spans =
    tracing &&
    (await openSpanExport({
      config: tracing,
      headers: files.tracingHeaders,
      dialer: () => runtime.value.dialer,
      instance,
      version: build?.version,
      logger,
      query: () => runtime.value.config.log.query,
      now,
      wallClock,
    }))
  const tunnels = new TunnelRegistry(now)
  const metrics = new Metrics({
    configHash: () => runtime.value.hash,
    tunnels: () => tunnels,
    upstreams: () => runtime.value.upstreamHealth(),
    cache: () => runtime.value.cache,
    certificates: () => runtime.value.certificates(),
    lostLogLines: environment.lostLogLines ?? (() => 0),
    build,
    process: environment.processMetrics,
  })
  const recorder = new StatusRecorder({
    now,
    wallClock,
    totals: () => {
      const { bytesUp, bytesDown, ...counts } = metrics.exchanges.totals
      const bytes = { bytesUp: bytesUp + tunnels.bytesUp, bytesDown: bytesDown + tunnels.bytesDown }
      return { ...counts, ...bytes, opened: tunnels.opened, tunnels: tunnels.size }
    },
  })
  const limitReached = (limit: LimitName): void => metrics.exchanges.limitReached(limit)
  return {
    logger,
    startId,
    now,
    wallClock,
    date: createHttpDate(wallClock),
    connector,
    descriptors,
    lookups: new Lookups(config, environment, limitReached),
    passwords: new BcryptThread(),
    attempts: environment.attempts ?? new FailedAttempts(now),
    credentialKey: randomBytes(32),
    shares: new Shares(config.limits, environment.ledger ?? new LocalLedger(now), limitReached),
    buffers: new ReadBuffers(),
    tunnels,
    caches: new Caches({ logger, descriptors, now, wallClock }),
    metrics,
    recorder,
    spans,
    observers: [metrics.exchanges, recorder, ...(spans === undefined ? [] : [spans.spans])],
  }
}
