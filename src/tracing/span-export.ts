/**
 * From spans to a collector of OpenTelemetry, by OTLP/HTTP in JSON, over sockets from the dialler. Its SDK is loaded here
 * and here alone, when there is something to trace: it is large, and whoever does not trace can do without it.
 */
import { setImmediate } from 'node:timers/promises'
import { createSecureContext } from 'node:tls'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.js'
import type { ExchangeSpans, ExchangeSpansOptions } from './exchange-spans.js'
import { DialledAgent } from './dialled-agent.js'
import type { Dialer } from '../upstream/dial.js'
import { errorCode } from '../upstream/failures.js'
import { SpanLosses } from './span-losses.js'

export interface SpanExportOptions extends Omit<ExchangeSpansOptions, 'tracer'> {
  readonly config: NonNullable<Config['tracing']>
  /** Fields of every request to the collector. */
  readonly headers: Readonly<Record<string, string>>
  /** The one in force. */
  readonly dialer: () => Pick<Dialer, 'permitConfigured' | 'connect' | 'connectTls'>
  /** What tells this process from others of its kind. */
  readonly instance: string
  readonly version: string | undefined
  readonly logger: Logger
  /** How many spans may wait. */
  readonly most?: number
  /** The longest that a span waits, in milliseconds. */
  readonly delayMs?: number
  readonly load?: () => ReturnType<typeof loadSdk>
}

export interface SpanExport {
  readonly spans: ExchangeSpans
  /** Goes on with other fields. */
  authorize(headers: Readonly<Record<string, string>>): void
  /** Sends what waits, as long as that takes no longer than a moment. Never rejects. */
  close(): Promise<void>
}

/** Tracing is asked for, and what it needs is not installed. */
export class TracingUnavailable extends Error {
  override readonly name = 'TracingUnavailable'
}

/** Whether it is that, here or in another process. */
export function isTracingUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === 'TracingUnavailable'
}

const MOST_SPANS = 2048
const DELAY_MS = 5000
/** How long one batch is tried for, with what the SDK makes of refusals that may pass. */
const SEND_MS = 10_000
/** How long a stop waits for the spans that are left. */
const FLUSH_MS = 2000

/** @throws TracingUnavailable */
export async function openSpanExport(options: SpanExportOptions): Promise<SpanExport> {
  const { most = MOST_SPANS, delayMs = DELAY_MS, load = loadSdk } = options
  const sdk = await load().catch((error: unknown) => {
    throw notInstalled(error)
  })
  const { config, dialer, logger, now } = options
  let { headers } = options
  const agent = new DialledAgent(config.otlp.scheme, collector(config.otlp, dialer))
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
    most,
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
      // Exchanges that were cut just now have their end within this turn of the event loop.
      await setImmediate()
      await atMost(
        FLUSH_MS,
        provider.shutdown().catch(() => {}),
      )
      queue.abandon()
      agent.close()
      losses.tell()
    },
  }
}

/** Whoever wrote the collector's address into the configuration may reach it; it is dialled like an upstream. */
function collector(
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

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, limit])
  clearTimeout(timer)
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
