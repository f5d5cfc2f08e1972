import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import t from 'tap'
import { SpanQueue } from '../../src/tracing/span-queue.js'

type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0]

interface Scene {
  readonly queue: SpanQueue
  /** The sizes of the batches that were handed over. */
  readonly batches: number[]
  readonly lost: (readonly [spans: number, error: string])[]
  /** Ends the oldest export that has not been. */
  finish(result: Result): void
  /** Resolves with the next export. */
  exported(): Promise<void>
  end(spans: number): void
}

function scene(most: number, delayMs = 60_000): Scene {
  const batches: number[] = []
  const lost: (readonly [number, string])[] = []
  const pending: ((result: Result) => void)[] = []
  let wake = () => {}
  const exporter: SpanExporter = {
    export: (spans, done) => {
      batches.push(spans.length)
      pending.push(done)
      wake()
    },
    shutdown: async () => {},
  }
  const queue = new SpanQueue({ exporter, maxSpans: most, delayMs, lost: (...loss) => lost.push(loss) })
  const span = (traceFlags: number) => ({ spanContext: () => ({ traceFlags }), resource: {} }) as ReadableSpan
  return {
    queue,
    batches,
    lost,
    finish: result => pending.shift()?.(result),
    exported: () =>
      new Promise(resolve => {
        wake = resolve
      }),
    end: spans => {
      for (let i = 0; i < spans; i++) queue.onEnd(span(1))
      queue.onEnd(span(0))
    },
  }
}

t.test('so many wait, those that are being sent among them, and all others are lost', async t => {
  const { queue, batches, lost, finish, exported, end } = scene(4)
  const begun = exported()
  end(5)
  await begun
  t.same(batches, [4])
  t.same(lost, [[1, 'too many spans wait']])
  finish({ code: 0 })
  end(3)
  t.equal(lost.length, 1, 'there is room again')
  const next = exported()
  const stopped = queue.shutdown()
  await next
  finish({ code: 0 })
  await stopped
  queue.abandon()
  t.same(batches, [4, 3])
  t.equal(lost.length, 1)
})

t.test('what could not be sent is lost, and told with its reason', async t => {
  for (const [error, told] of [
    [Object.assign(new Error('Bad Request'), { code: 400 }), 'status 400 Bad Request'],
    [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'connect ECONNREFUSED'],
  ] as const) {
    const { queue, lost, finish, exported, end } = scene(10)
    end(2)
    const begun = exported()
    const stopped = queue.shutdown()
    await begun
    finish({ code: 1, error })
    await t.rejects(stopped, { message: error.message })
    t.same(lost, [[2, told]])
    queue.abandon()
    t.equal(lost.length, 1)
  }
})

t.test('abandoned, it counts what waits, once, and what comes after', async t => {
  const { queue, lost, finish, exported, end } = scene(10)
  end(2)
  const begun = exported()
  const stopped = queue.shutdown()
  await begun
  queue.abandon()
  queue.abandon()
  t.same(lost, [[2, 'not sent before the stop']])
  finish({ code: 0 })
  await stopped
  t.equal(lost.length, 1)
  end(1)
  t.equal(lost.length, 2)
})

t.test('none waits longer than it is to', async t => {
  const { batches, finish, exported, end } = scene(10, 1)
  const begun = exported()
  end(2)
  const keepAlive = setTimeout(() => {}, 10_000)
  await begun
  clearTimeout(keepAlive)
  t.same(batches, [2])
  finish({ code: 0 })
})
