/** How request content is handed from one consumer to the next. */
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import type { ContentConsumer, RequestFacts } from '../../src/exchange.js'
import type { RequestHead } from '../../src/http1/request-reader.js'
import { ConnectionExchange, type ExchangeConnection } from '../../src/listener/connection-exchange.js'

function exchange(given: Partial<ExchangeConnection> = {}): {
  readonly exchange: ConnectionExchange
  readonly wanted: () => number
} {
  let wanted = 0
  const connection = { contentWanted: () => wanted++, ...given } as unknown as ExchangeConnection
  const head = { framing: { kind: 'chunked' } } as unknown as RequestHead
  return {
    exchange: new ConnectionExchange(connection, 'id', head, {} as RequestFacts),
    wanted: () => wanted,
  }
}

function failureOf({ aborted }: ConnectionExchange): ProxyError | undefined {
  return aborted?.kind === 'failed' ? aborted.error : undefined
}

function consumer(takes = true): ContentConsumer & { readonly told: string[] } {
  const told: string[] = []
  return {
    told,
    data: chunk => {
      told.push(`data ${chunk}`)
      return takes
    },
    end: trailers => void told.push(`end ${trailers.join(' ')}`),
  }
}

t.test('content flows from start to stop, and again from the next start', async t => {
  const { exchange: one, wanted } = exchange()
  t.notOk(one.flowing)
  const [first, second] = [consumer(), consumer()]
  one.start(first)
  t.ok(one.flowing)
  one.stop()
  t.notOk(one.flowing, 'what comes now waits')
  one.start(second)
  t.ok(one.flowing)
  t.equal(wanted(), 2)
  one.deliver(Buffer.from('a'))
  one.deliverEnd(['X', '1'])
  t.same(first.told, [])
  t.same(second.told, ['data a', 'end X 1'])
})

t.test('content of no bytes that has ended ends for whoever starts it again', async t => {
  const { exchange: one } = exchange()
  one.start(consumer())
  one.deliverEnd(['X', '1'])
  one.stop()
  const second = consumer()
  one.start(second)
  t.same(second.told, ['end X 1'])
})

t.test('a consumer that holds back does not hold the next one back', async t => {
  const { exchange: one } = exchange()
  one.start(consumer(false))
  one.deliver(Buffer.from('a'))
  t.notOk(one.flowing)
  one.start(consumer())
  t.ok(one.flowing)
})

t.test('all content counts, and what its tunnel carries', async t => {
  const { exchange: one } = exchange({ respond: () => {}, write: () => true })
  one.start(consumer())
  one.deliver(Buffer.alloc(3))
  one.respond({ status: 200, reason: '', fields: [], contentLength: undefined }).write(Buffer.alloc(4))
  t.equal(one.bytesPassed, 7)
  one.stopTunnel('bytes')
  const stopped: string[] = []
  const pump = {
    finished: new Promise<never>(() => {}),
    bytesUp: 40,
    bytesDown: 60,
    check() {},
    stop: stopped.push.bind(stopped),
  }
  one.carriedBy(pump)
  t.equal(one.bytesPassed, 107)
  one.stopTunnel('bytes')
  t.same(stopped, ['bytes'])
})

t.test(
  'content that trickles fails; where none is wanted, or none is to come, there is no hurry',
  async t => {
    const limits = { bodyMinRate: 10, bodyIdleMs: 1000 }
    const failed = (end: boolean, start: boolean, { bodyMinRate, bodyIdleMs } = limits) => {
      const { exchange: one } = exchange()
      if (start) one.start(consumer())
      one.deliver(Buffer.alloc(9))
      if (end) one.deliverEnd([])
      for (const now of [0, 1000, 1999]) one.checkPace(now, { bodyMinRate, bodyIdleMs })
      t.equal(failureOf(one), undefined)
      one.checkPace(2000, { bodyMinRate, bodyIdleMs })
      return failureOf(one)
    }
    const { exchange: slow } = exchange()
    slow.start(consumer())
    slow.checkPace(0, limits)
    slow.deliver(Buffer.alloc(10))
    slow.checkPace(1000, limits)
    slow.deliver(Buffer.alloc(9))
    slow.checkPace(1999, limits)
    t.equal(failureOf(slow), undefined)
    slow.checkPace(2000, limits)
    t.match(failureOf(slow), { status: 408, reason: 'body_min_rate', close: true })
    t.match(failureOf(slow)?.detail, 'limits.body_min_rate allows (10B a second')
    t.equal(failed(true, true), undefined)
    t.equal(failed(false, false), undefined)
    t.equal(failed(false, true, { ...limits, bodyMinRate: 0 }), undefined)
  },
)

t.test('to fail and to be gone are two ends, and the first is the one', async t => {
  const error = new ProxyError('http_request_error', 'm')
  for (const [end, other, ended] of [
    ['fail', 'gone', { kind: 'failed', closeReason: 'failed', error }],
    ['gone', 'fail', { kind: 'gone', closeReason: 'client_gone' }],
  ] as const) {
    const refused: unknown[] = []
    const { exchange: one } = exchange({
      refuse: of => void refused.push(of),
      respond: of => refused.push(of),
    })
    const told: unknown[] = []
    one.onAborted(aborted => void told.push(aborted))
    const ends = { fail: () => one.fail(error), gone: () => one.gone() }
    ends[end]()
    ends[other]()
    one.onAborted(aborted => void told.push(aborted))
    t.strictSame(told, [ended, ended])
    t.strictSame(one.aborted, ended)
    t.ok(one.signal.aborted)
    one.respond({ status: 200, reason: '', fields: [], contentLength: 0 })
    one.refuse(error)
    t.same(
      refused,
      end === 'fail' ? [error] : [],
      'it is answered where there is somebody, and with its error alone',
    )
  }
})
