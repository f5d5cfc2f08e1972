import type { ClientRequest } from 'node:http'
import t from 'tap'
import type { RequestContent } from '../../src/exchange.js'
import { headerList, headerPairs, keepMethodAsWritten } from '../../src/upstream/node-request.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'

function content(length: number | undefined): RequestContent {
  return { length, bytes: 0, start: () => {}, stop: () => {}, resume: () => {} }
}

function list(request: Partial<UpstreamRequest>): string[] {
  return headerList({
    method: 'GET',
    path: '/',
    host: 'a.test',
    fields: ['X', '1', 'trailer', 'x-sum', 'Via', '1.1 p'],
    content: undefined,
    sendsZeroLength: false,
    expectContinue: false,
    upgrade: undefined,
    ...request,
  })
}

const PLAIN = ['Host', 'a.test', 'X', '1', 'Via', '1.1 p']
const ALIVE = ['Connection', 'keep-alive']

t.test('Host comes first, then the fields, then framing and Connection (RFC 9110 §7.2)', async t => {
  t.same(list({}), [...PLAIN, ...ALIVE])
  t.same(list({ content: content(5) }), [...PLAIN, 'Content-Length', '5', ...ALIVE])
  t.same(list({ sendsZeroLength: true }), [...PLAIN, 'Content-Length', '0', ...ALIVE])
})

t.test('a method that may have content says that it has none (RFC 9110 §8.6)', async t => {
  for (const method of ['POST', 'PUT', 'PATCH', 'PROPFIND']) {
    t.same(list({ method }), [...PLAIN, 'Content-Length', '0', ...ALIVE], method)
  }
  for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']) {
    t.same(list({ method }), [...PLAIN, ...ALIVE], method)
  }
})

t.test('only chunked content has trailers to announce (RFC 9110 §6.6.2)', async t => {
  t.same(list({ content: content(undefined) }), [
    ...['Host', 'a.test', 'X', '1', 'trailer', 'x-sum', 'Via', '1.1 p'],
    ...['Transfer-Encoding', 'chunked', ...ALIVE],
  ])
})

t.test('Expect and Upgrade are written anew', async t => {
  t.same(list({ expectContinue: true, content: content(5) }), [
    ...PLAIN,
    ...['Content-Length', '5', 'Expect', '100-continue', ...ALIVE],
  ])
  t.same(list({ upgrade: 'websocket' }), [...PLAIN, 'Connection', 'Upgrade', 'Upgrade', 'websocket'])
})

t.test('a flat list becomes pairs, repeats kept', async t => {
  t.same(headerPairs(['a', '1', 'A', '2']), [
    ['a', '1'],
    ['A', '2'],
  ])
  t.same(headerPairs([]), [])
})

t.test(
  'a head that is not where it is looked for is not sent with another method (RFC 9110 §9.1)',
  async t => {
    const keep = (head: object, method: string) => {
      const client = { method: 'REPORT', ...head }
      keepMethodAsWritten(client as unknown as ClientRequest, method)
      return client
    }
    t.same(keep({ _header: 'REPORT / HTTP/1.1\r\n' }, 'Report'), {
      method: 'REPORT',
      _header: 'Report / HTTP/1.1\r\n',
    })
    t.same(keep({}, 'REPORT'), { method: 'REPORT' })
    for (const head of [{}, { _header: null }, { _header: 'GET / HTTP/1.1\r\n' }]) {
      t.throws(() => keep(head, 'Report'), TypeError)
    }
  },
)
