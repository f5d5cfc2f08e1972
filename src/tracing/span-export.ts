/**
 * From spans to a collector of OpenTelemetry, by OTLP/HTTP in JSON, over sockets from the dialler. Its SDK is loaded here
 * and here alone, when there is something to trace: it is large, and whoever does not trace can do without it.
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

type Created = (error: Error | null, socket?: Duplex) => void

/** An http.Agent that opens no socket itself: each is dialled as all others are, with a permit, to an address. */
export class DialledAgent extends Agent {
  /** What node:http compares the URL's scheme with. */
  readonly protocol: string
  readonly #open: OpenSocket
  readonly #controller = new AbortController()
  readonly #sockets = new Set<Duplex>()

  /** Each request has a connection of its own, so that none that has died in between is used. */
  constructor(scheme: 'http' | 'https', open: OpenSocket, options: AgentOptions = {}) {
    super({ ...options, keepAlive: false })
    this.protocol = `${scheme}:`
    this.#open = open
  }

  override createConnection(_options: unknown, created: Created): undefined {
    this.#open(this.#controller.signal).then(
      socket => {
        this.#sockets.add(socket)
        socket.once('close', () => this.#sockets.delete(socket))
        created(null, socket)
      },
      (error: unknown) => created(systemError(error)),
    )
    return undefined
  }

  /** Ends what is open, and what is being dialled. */
  close(): void {
    this.#controller.abort()
    for (const socket of this.#sockets) socket.destroy(new Error('closed'))
    this.destroy()
  }
}

/** The error of the system behind one of ours: whoever retries goes by its code. */
function systemError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  return error.cause instanceof Error ? error.cause : error
}

const INTERVAL_MS = 60_000

/**
 * The event of spans that nobody will get, `spans_lost`, for each reason with its own number: at once, and then once a
 * minute as long as it goes on.
 */
export class SpanLosses {
  readonly #logger: Logger
  readonly #now: () => number
  /** How many have not been told, by why. */
  readonly #lost = new Map<string, number>()
  #told = Number.NEGATIVE_INFINITY

  /** @param now milliseconds, monotonic */
  constructor(logger: Logger, now: () => number) {
    this.#logger = logger
    this.#now = now
  }

  /** @param error why */
  add(spans: number, error: string): void {
    this.#lost.set(error, (this.#lost.get(error) ?? 0) + spans)
    if (this.#now() - this.#told >= INTERVAL_MS) this.tell()
  }

  /** Tells what has not been told. */
  tell(): void {
    if (this.#lost.size === 0) return
    for (const [error, spans] of this.#lost) this.#logger.warn({ event: 'spans_lost', spans, error })
    this.#told = this.#now()
    this.#lost.clear()
  }
}
