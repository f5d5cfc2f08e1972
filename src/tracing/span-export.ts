/**
 * Exports spans to an OpenTelemetry collector by OTLP/HTTP in JSON, over sockets of the dialler. Only this file loads the
 * SDK, and only if tracing is on: the SDK is large, and an optional dependency.
 */
import type { AgentOptions } from 'node:http'
import type { Duplex } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { createSecureContext } from 'node:tls'
import type { Logger } from 'pino'
import { errorCode } from '../errors.js'
import { pause } from '../pause.js'
import type { Config } from '../config/schema.js'
import type { CancelSignal } from '../exchange.js'
import { Agent } from '../http/node-http.js'
import type { Dialer } from '../upstream/dial.js'
import type { ExchangeSpans, ExchangeSpansOptions } from './exchange-spans.js'

export interface SpanExportOptions extends Omit<ExchangeSpansOptions, 'tracer'> {
  readonly config: NonNullable<Config['tracing']>
  /** Header fields of every request to the collector. */
  readonly headers: Readonly<Record<string, string>>
  /** The dialler of the configuration in force. */
  readonly dialer: () => Pick<Dialer, 'permitConfigured' | 'connect' | 'connectTls'>
  /** Distinguishes this process from others of the same service. */
  readonly instance: string
  readonly version: string | undefined
  readonly logger: Logger
  /** The most spans that may wait. */
  readonly maxSpans?: number
  /** The longest time that a span waits for others, in milliseconds. */
  readonly delayMs?: number
  readonly load?: () => ReturnType<typeof loadSdk>
}

export interface SpanExport {
  readonly spans: ExchangeSpans
  /** Replaces the header fields of requests to the collector. */
  authorize(headers: Readonly<Record<string, string>>): void
  /** Sends the spans that wait, within two seconds. Never rejects. */
  close(): Promise<void>
}

/** Tracing is configured, but its packages are not installed. */
export class TracingUnavailable extends Error {
  override readonly name = 'TracingUnavailable'
}

/** Whether an error is TracingUnavailable, of this process or of a worker. */
export function isTracingUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === 'TracingUnavailable'
}

const MAX_SPANS = 2048
const DELAY_MS = 5000
/** The time limit for one batch, including the SDK's retries. */
const SEND_MS = 10_000
/** The longest time that a stop waits for the remaining spans. */
const FLUSH_MS = 2000

/** @throws TracingUnavailable */
export async function openSpanExport(options: SpanExportOptions): Promise<SpanExport> {
  const { maxSpans = MAX_SPANS, delayMs = DELAY_MS, load = loadSdk } = options
  const sdk = await load().catch((error: unknown) => {
    throw notInstalled(error)
  })
  const { config, dialer, logger, now } = options
  let { headers } = options
  const agent = new DialledAgent(config.otlp.scheme, openSocketTo(config.otlp, dialer))
  const losses = new SpanLosses(logger, now)
  const exporter = new sdk.OTLPTraceExporter({
    url: config.otlp.text,
    headers: async () => ({ ...headers }),
    httpAgentOptions: () => agent,
    timeoutMillis: SEND_MS,
    userAgent: 'sluice',
  })
  const queue = new sdk.SpanQueue({
    exporter,
    maxSpans,
    delayMs,
    lost: (spans, error) => losses.add(spans, error),
  })
  const provider = new sdk.TracerProvider({
    resource: sdk.resourceFromAttributes({
      'service.name': 'sluice',
      'service.instance.id': options.instance,
      ...(options.version === undefined ? {} : { 'service.version': options.version }),
    }),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(config.sample) }),
    spanProcessors: [queue],
  })
  return {
    spans: new sdk.ExchangeSpans({ ...options, tracer: provider.getTracer('sluice', options.version) }),
    authorize: next => {
      headers = next
    },
    close: async () => {
      // Exchanges that were just aborted end within this turn of the event loop.
      await setImmediate()
      await withTimeLimit(
        FLUSH_MS,
        provider.shutdown().catch(() => {}),
      )
      queue.abandon()
      agent.close()
      losses.report()
    },
  }
}

/** The collector is dialled like an upstream: its address comes from the configuration, so it may be private. */
function openSocketTo(
  { scheme, authority }: NonNullable<Config['tracing']>['otlp'],
  dialer: SpanExportOptions['dialer'],
): ConstructorParameters<typeof DialledAgent>[1] {
  const context = scheme === 'https' ? createSecureContext() : undefined
  return async signal => {
    const dial = dialer()
    const permit = await dial.permitConfigured({ source: 'tracing.otlp', ...authority }, { signal })
    const dialled =
      context === undefined ? dial.connect(permit, signal) : dial.connectTls(permit, context, signal)
    return (await dialled).socket
  }
}

async function withTimeLimit(ms: number, work: Promise<void>): Promise<void> {
  const over = new AbortController()
  await Promise.race([work, pause(ms, over.signal)])
  over.abort()
}

async function loadSdk() {
  const [{ resourceFromAttributes }, sdk, { OTLPTraceExporter }, { SpanQueue }, { ExchangeSpans }] =
    await Promise.all([
      import('@opentelemetry/resources'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('./span-queue.js'),
      import('./exchange-spans.js'),
    ])
  const { TracerProvider, ParentBasedSampler, TraceIdRatioBasedSampler } = sdk
  return {
    resourceFromAttributes,
    TracerProvider,
    ParentBasedSampler,
    TraceIdRatioBasedSampler,
    OTLPTraceExporter,
    SpanQueue,
    ExchangeSpans,
  }
}

function notInstalled(error: unknown): unknown {
  if (errorCode(error) !== 'ERR_MODULE_NOT_FOUND') return error
  return new TracingUnavailable(
    'tracing needs the optional dependencies of package.json (@opentelemetry/...), which are not installed; ' +
      'install with `npm ci --include=optional`, or leave tracing out',
    { cause: error },
  )
}

/** @returns a connected socket, with TLS on it where the scheme says so */
type OpenSocket = (signal: CancelSignal) => Promise<Duplex>

type SocketCallback = (error: Error | null, socket?: Duplex) => void

/** An http.Agent whose sockets come from the dialler, each with a permit for an address. */
export class DialledAgent extends Agent {
  /** Compared by node:http with the scheme of the URL. */
  readonly protocol: string
  readonly #open: OpenSocket
  readonly #controller = new AbortController()
  readonly #sockets = new Set<Duplex>()

  /** Each request has a connection of its own, so that no connection is used that died meanwhile. */
  constructor(scheme: 'http' | 'https', open: OpenSocket, options: AgentOptions = {}) {
    super({ ...options, keepAlive: false })
    this.protocol = `${scheme}:`
    this.#open = open
  }

  override createConnection(_options: unknown, callback: SocketCallback): undefined {
    this.#open(this.#controller.signal).then(
      socket => {
        this.#sockets.add(socket)
        socket.once('close', () => this.#sockets.delete(socket))
        callback(null, socket)
      },
      (error: unknown) => callback(systemError(error)),
    )
    return undefined
  }

  /** Closes open sockets and cancels connection attempts. */
  close(): void {
    this.#controller.abort()
    for (const socket of this.#sockets) socket.destroy(new Error('closed'))
    this.destroy()
  }
}

/** The system error that caused an error: the SDK decides by its code whether to retry. */
function systemError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  return error.cause instanceof Error ? error.cause : error
}

const INTERVAL_MS = 60_000

/**
 * Logs lost spans as `spans_lost`, one event for each reason with the number of spans: the first at once, then at most once a
 * minute.
 */
export class SpanLosses {
  readonly #logger: Logger
  readonly #now: () => number
  /** The numbers of spans that are not reported yet, by reason. */
  readonly #unreported = new Map<string, number>()
  #reportedAt = Number.NEGATIVE_INFINITY

  /** @param now milliseconds, monotonic */
  constructor(logger: Logger, now: () => number) {
    this.#logger = logger
    this.#now = now
  }

  /** @param error the reason */
  add(spans: number, error: string): void {
    this.#unreported.set(error, (this.#unreported.get(error) ?? 0) + spans)
    if (this.#now() - this.#reportedAt >= INTERVAL_MS) this.report()
  }

  /** Logs the losses that are not reported yet. */
  report(): void {
    if (this.#unreported.size === 0) return
    for (const [error, spans] of this.#unreported) this.#logger.warn({ event: 'spans_lost', spans, error })
    this.#reportedAt = this.#now()
    this.#unreported.clear()
  }
}
