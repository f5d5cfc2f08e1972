/** A request of a connection: how its content is passed from one consumer to the next, and how it ends early. */
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import type { ContentConsumer, RequestFacts } from '../../src/exchange.js'
import type { RequestHead } from '../../src/http1/request-reader.js'
import { ConnectionExchange, ReceivedContent, type RequestConnection } from '../../src/listener/exchange.js'

/** Chunked content. */
function chunked(): { readonly content: ReceivedContent; readonly wanted: () => number } {
  let wanted = 0
  return {
    content: new ReceivedContent(undefined, { contentWanted: () => void wanted++ }),
    wanted: () => wanted,
  }
}

function exchange(
  given: Partial<Omit<RequestConnection, 'output'>> = {},
  output: object = {},
  framing: RequestHead['framing'] = { kind: 'chunked' },
): ConnectionExchange {
  const connection = { client: {}, contentWanted: () => {}, ...given, output: { mute: () => {}, ...output } }
  const head = { framing } as unknown as RequestHead
  return new ConnectionExchange(connection as unknown as RequestConnection, 'id', head, {} as RequestFacts)
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
  const { content, wanted } = chunked()
  t.notOk(content.flowing)
  const [first, second] = [consumer(), consumer()]
  content.start(first)
  t.ok(content.flowing)
  content.stop()
  t.notOk(content.flowing, 'what comes now waits')
  content.start(second)
  t.ok(content.flowing)
  t.equal(wanted(), 2)
  content.deliver(Buffer.from('a'))
  content.deliverEnd(['X', '1'])
  t.same(first.told, [])
  t.same(second.told, ['data a', 'end X 1'])
})

t.test('empty content that has ended also ends for a later consumer', async t => {
  const { content } = chunked()
  content.start(consumer())
  content.deliverEnd(['X', '1'])
  content.stop()
  const second = consumer()
  content.start(second)
  t.same(second.told, ['end X 1'])
})

t.test('a consumer that pauses does not pause the next one', async t => {
  const { content, wanted } = chunked()
  content.start(consumer(false))
  content.deliver(Buffer.from('a'))
  t.notOk(content.flowing)
  content.start(consumer())
  t.ok(content.flowing)
  content.resume()
  t.equal(wanted(), 2, 'and nothing is left to continue')
})

t.test('a request without content has ended before it is started', async t => {
  const one = exchange({}, {}, { kind: 'none' })
  t.equal(one.content.length, 0)
  const [first, second] = [consumer(), consumer()]
  one.content.start(first)
  t.same(first.told, ['end '])
  t.notOk(one.content.flowing)
  exchange({}, {}, { kind: 'none' }).content.start(second)
  t.same([first.told, second.told], [['end '], ['end ']], 'that of one request is not that of another')
})

t.test('counts all content, and the bytes of its tunnel', async t => {
  const output = { bytes: 0, head: () => {} }
  const one = exchange({}, output)
  one.content.start(consumer())
  one.content.deliver(Buffer.alloc(3))
  t.equal(one.bytesPassed, 3)
  output.bytes = 4
  const counted = exchange({}, output)
  counted.content.deliver(Buffer.alloc(3))
  t.equal(counted.bytesPassed, 7)
  counted.stopTunnel('bytes')
  const stopped: string[] = []
  const pump = {
    finished: new Promise<never>(() => {}),
    bytesUp: 40,
    bytesDown: 60,
    check() {},
    stop: stopped.push.bind(stopped),
  }
  counted.becameTunnel(pump)
  t.equal(counted.bytesPassed, 107)
  counted.stopTunnel('bytes')
  t.same(stopped, ['bytes'])
})

t.test(
  'content that arrives slowly is too slow, but not while none is wanted or none is to come',
  async t => {
    const limits = { bodyMinRate: 10, bodyIdleMs: 1000 }
    const tooSlow = (end: boolean, start: boolean, { bodyMinRate, bodyIdleMs } = limits) => {
      const { content } = chunked()
      if (start) content.start(consumer())
      content.deliver(Buffer.alloc(9))
      if (end) content.deliverEnd([])
      for (const now of [0, 1000, 1999]) t.notOk(content.isTooSlow(now, { bodyMinRate, bodyIdleMs }))
      return content.isTooSlow(2000, { bodyMinRate, bodyIdleMs })
    }
    const { content: slow } = chunked()
    slow.start(consumer())
    t.notOk(slow.isTooSlow(0, limits))
    slow.deliver(Buffer.alloc(10))
    t.notOk(slow.isTooSlow(1000, limits))
    slow.deliver(Buffer.alloc(9))
    t.notOk(slow.isTooSlow(1999, limits))
    t.ok(slow.isTooSlow(2000, limits))
    t.notOk(tooSlow(true, true))
    t.notOk(tooSlow(false, false))
    t.notOk(tooSlow(false, true, { ...limits, bodyMinRate: 0 }))
  },
)

t.test('each period needs its bytes, and the first one is a grace period', async t => {
  const { content } = chunked()
  const limits = { bodyMinRate: 100, bodyIdleMs: 1000 }
  const look = (now: number, bytes: number) => {
    content.deliver(Buffer.alloc(bytes - content.bytes))
    return content.isTooSlow(now, limits)
  }
  content.start(consumer())
  t.equal(look(0, 0), false)
  t.equal(look(999, 0), false)
  t.equal(look(1000, 100), false)
  t.equal(look(1999, 100), false)
  t.equal(look(2000, 199), true)
})

t.test('the time in which no content was wanted is not counted', async t => {
  const { content } = chunked()
  const limits = { bodyMinRate: 100, bodyIdleMs: 1000 }
  const look = (now: number) => content.isTooSlow(now, limits)
  content.start(consumer(false))
  t.equal(look(0), false)
  t.equal(look(500), false)
  content.deliver(Buffer.alloc(0))
  t.equal(look(60_000), false)
  content.resume()
  t.equal(look(60_499), false)
  content.deliver(Buffer.alloc(99))
  content.resume()
  t.equal(look(60_500), true)
})

t.test('failing and being gone are two ends, of which the first counts', async t => {
  const error = new ProxyError('http_request_error', 'm')
  for (const [end, other, ended] of [
    ['fail', 'gone', { kind: 'failed', closeReason: 'failed', error }],
    ['gone', 'fail', { kind: 'gone', closeReason: 'client_gone' }],
  ] as const) {
    const refused: unknown[] = []
    let muted = 0
    const one = exchange(
      { refuse: of => void refused.push(of) },
      { head: (of: unknown) => void refused.push(of), mute: () => muted++ },
    )
    const told: unknown[] = []
    one.onAborted(aborted => void told.push(aborted))
    const ends = { fail: () => one.fail(error), gone: () => one.gone() }
    ends[end]()
    ends[other]()
    one.onAborted(aborted => void told.push(aborted))
    t.strictSame(told, [ended, ended])
    t.strictSame(one.aborted, ended)
    t.ok(one.signal.aborted)
    t.equal(muted, 1, 'what its handler goes on to write is not sent')
    one.respond({ status: 200, reason: '', fields: [], contentLength: 0 })
    one.refuse(error)
    t.same(
      refused,
      end === 'fail' ? [error] : [],
      'it is answered where there is somebody, and with its error alone',
    )
  }
})

t.test('its signal aborts with it, for the listeners that remain, and has one reason', async t => {
  const one = exchange()
  const { signal } = one
  t.equal(one.signal, signal)
  t.notOk(signal.aborted)
  t.equal(signal.reason, undefined)
  const told: string[] = []
  const [removed, last] = [() => void told.push('removed'), () => void told.push('last')]
  const late = () => void told.push('late')
  const first = () => {
    told.push(`first ${signal.aborted}`)
    signal.removeEventListener('abort', late)
    signal.removeEventListener('abort', first)
  }
  for (const listener of [removed, first, late, last]) signal.addEventListener('abort', listener)
  signal.removeEventListener('abort', removed)
  signal.removeEventListener('abort', () => {})
  one.gone()
  one.gone()
  t.same(told, ['first true', 'last'])
  t.match(signal.reason, new Error('the exchange has ended early'))
  t.equal(signal.reason, signal.reason)
  signal.addEventListener('abort', removed)
  t.same(told, ['first true', 'last'], 'as with an AbortSignal, nobody is called who comes later')
})
