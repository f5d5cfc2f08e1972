/**
 * Spans that wait to be sent: so many and no more, and what is lost is counted. A collector that is slow or away costs
 * spans, and never a request.
 *
 * Loaded by whoever traces, and by nobody else.
 */
import { TraceFlags } from '@opentelemetry/api'
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'

export interface SpanQueueOptions {
  readonly exporter: SpanExporter
  /** Told of spans that nobody will get, and why. */
  readonly lost: (spans: number, error: string) => void
  /** How many may wait; those being sent count too. */
  readonly most: number
  /** The longest that one waits for others to go with it, in milliseconds. */
  readonly delayMs: number
}

/** Spans that go into one request. */
const BATCH = 512

export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions
  readonly #batches: BatchSpanProcessor
  #waiting = 0
  #closed = false

  constructor(options: SpanQueueOptions) {
    this.#options = options
    const { exporter, most, delayMs } = options
    this.#batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) =>
          exporter.export(spans, result => {
            // What is late is counted as lost by then.
            if (!this.#closed) this.#sent(spans.length, result.code === 0 ? undefined : result.error)
            done(result)
          }),
        shutdown: () => exporter.shutdown(),
      },
      maxQueueSize: most,
      maxExportBatchSize: Math.min(BATCH, most),
      scheduledDelayMillis: delayMs,
    })
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return
    if (this.#closed || this.#waiting >= this.#options.most) this.#options.lost(1, 'too many spans wait')
    else {
      this.#waiting += 1
      this.#batches.onEnd(span)
    }
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush()
  }

  /** Sends what waits. Rejects when that fails. */
  shutdown(): Promise<void> {
    return this.#batches.shutdown()
  }

  /** Gives up on what still waits. */
  abandon(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#waiting > 0) this.#options.lost(this.#waiting, 'not sent before the stop')
  }

  #sent(spans: number, error: Error | null | undefined): void {
    this.#waiting -= spans
    if (error !== undefined) this.#options.lost(spans, reason(error))
  }
}

/** A collector's refusal has its status as a code. */
function reason(error: Error | null): string {
  if (error === null) return 'failed'
  const { message } = error
  return 'code' in error && typeof error.code === 'number'
    ? `status ${error.code} ${message}`.trim()
    : message
}
