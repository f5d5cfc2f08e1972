/** How request content is handed from one consumer to the next. */
import t from 'tap'
import type { ContentConsumer, RequestFacts } from '../../src/exchange.js'
import type { RequestHead } from '../../src/http1/request-reader.js'
import { ConnectionExchange, type ExchangeConnection } from '../../src/listener/connection-exchange.js'

function exchange(): { readonly exchange: ConnectionExchange; readonly wanted: () => number } {
  let wanted = 0
  const connection = { contentWanted: () => wanted++ } as unknown as ExchangeConnection
  const head = { framing: { kind: 'chunked' } } as unknown as RequestHead
  return {
    exchange: new ConnectionExchange(connection, 'id', head, {} as RequestFacts),
    wanted: () => wanted,
  }
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
