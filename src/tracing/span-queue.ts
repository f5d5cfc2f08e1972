/**
 * The queue of spans that wait to be sent. Its length is bounded, and lost spans are counted: a collector that is slow or
 * unreachable costs spans, and never delays a request.
 *
 * This file is loaded only if tracing is on.
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
  /** Called with a number of spans that are lost, and the reason. */
  readonly lost: (spans: number, error: string) => void
  /** The most spans that may wait, including those that are being sent. */
  readonly maxSpans: number
  /** The longest time that a span waits for others, in milliseconds. */
  readonly delayMs: number
}

/** The most spans of one request. */
const BATCH = 512

export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions
  readonly #batches: BatchSpanProcessor
  #waiting = 0
  #closed = false

  constructor(options: SpanQueueOptions) {
    this.#options = options
    const { exporter, maxSpans, delayMs } = options
    this.#batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) =>
          exporter.export(spans, result => {
            // After abandon, spans that were still on their way already count as lost.
            if (!this.#closed) this.#sent(spans.length, result.code === 0 ? undefined : result.error)
            done(result)
          }),
        shutdown: () => exporter.shutdown(),
      },
      maxQueueSize: maxSpans,
      maxExportBatchSize: Math.min(BATCH, maxSpans),
      scheduledDelayMillis: delayMs,
    })
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return
    if (this.#closed || this.#waiting >= this.#options.maxSpans) this.#options.lost(1, 'too many spans wait')
    else {
      this.#waiting += 1
      this.#batches.onEnd(span)
    }
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush()
  }

  /** Sends the spans that wait. Rejects if that fails. */
  shutdown(): Promise<void> {
    return this.#batches.shutdown()
  }

  /** Counts the spans that still wait as lost. */
  abandon(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#waiting > 0) this.#options.lost(this.#waiting, 'not sent before the stop')
  }

  #sent(spans: number, error: Error | null | undefined): void {
    this.#waiting -= spans
    if (error !== undefined) this.#options.lost(spans, reasonOf(error))
  }
}

/** The reason of a failed export; a collector's refusal has its status as a code. */
function reasonOf(error: Error | null): string {
  if (error === null) return 'failed'
  const { message } = error
  return 'code' in error && typeof error.code === 'number'
    ? `status ${error.code} ${message}`.trim()
    : message
}
