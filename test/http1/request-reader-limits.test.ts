import t from 'tap'
import type { HeadLimits } from '../../src/http1/byte-queue.js'
import { readEveryWay } from '../kit/peers/transcript.js'

const LIMITS: HeadLimits = { headerBytes: 40, headerFields: 4, targetBytes: 20 }

/** The status that ends the reading of `input`, or 0 when one message was read to its end. */
function status(input: string, limits: Partial<HeadLimits> = {}): number {
  const { error, messages } = readEveryWay(input, { ...LIMITS, ...limits })
  if (error === undefined && messages[0]?.trailers === undefined) throw new Error('not read to its end')
  return Number.parseInt(error ?? '0', 10)
}

t.test('a target of exactly the limit is accepted, one byte more is 414 (RFC 9112 §3)', async t => {
  for (const method of ['GET', 'OPTIONS']) {
    const request = (length: number) => `${method} /${'a'.repeat(length - 1)} HTTP/1.1\r\nHost: a\r\n\r\n`
    t.equal(status(request(19)), 0)
    t.equal(status(request(20)), 0)
    t.equal(status(request(21)), 414)
    t.equal(status(request(60)), 414)
    t.equal(status(request(200)), 414)
  }
})

t.test(
  'a request line without an end is 414 beyond the limit, a method without one 501 (RFC 9112 §3)',
  async t => {
    t.equal(status(`GET /${'a'.repeat(300)}`), 414)
    t.equal(status('@'.repeat(300)), 414, 'what is no method')
    t.equal(status('X'.repeat(300)), 501)
  },
)

t.test(
  'field lines of exactly the limit together are accepted, one byte more is 431 (RFC 6585 §5)',
  async t => {
    const request = (...lines: string[]) => `GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
    t.equal(status(request(`a:${'b'.repeat(37)}`)), 0)
    t.equal(status(request(`a:${'b'.repeat(38)}`)), 0)
    t.equal(status(request(`a:${'b'.repeat(39)}`)), 431)
    t.equal(status(request(`a:${'b'.repeat(18)}`, `a:${'b'.repeat(18)}`)), 0, 'over two lines')
    t.equal(status(request(`a:${'b'.repeat(18)}`, `a:${'b'.repeat(19)}`)), 431)
    t.equal(status(request(`a:${'b'.repeat(38)}`, 'c:d')), 431, 'nothing is left for another line')
    t.equal(status(request(`a:${' '.repeat(39)}`)), 431, 'white space counts')
    t.equal(status(`GET / HTTP/1.1\r\n${'a'.repeat(300)}`), 431, 'a line without an end')
  },
)

t.test('as many field lines as the limit are accepted, one more is 431 (RFC 6585 §5)', async t => {
  const request = (count: number) => `GET / HTTP/1.1\r\n${'a:b\r\n'.repeat(count)}\r\n`
  t.equal(status(request(3)), 0)
  t.equal(status(request(4)), 0)
  t.equal(status(request(5)), 431)
  t.equal(status(request(100), { headerBytes: 10_000, headerFields: 99 }), 431)
  t.equal(status(request(100), { headerBytes: 10_000, headerFields: 100 }), 0)
})

t.test('the limits apply to each request separately (RFC 9112 §3)', async t => {
  const request = `GET / HTTP/1.1\r\na:${'b'.repeat(38)}\r\n\r\n`
  t.equal(readEveryWay(request.repeat(3), LIMITS).messages.length, 3)
})

t.test(
  'the trailer section has the limits of a header section, counted separately (RFC 6585 §5)',
  async t => {
    const request = (trailers: string) =>
      `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${trailers}\r\n`
    t.equal(status(request(`a:${'b'.repeat(38)}\r\n`)), 0)
    t.equal(status(request(`a:${'b'.repeat(39)}\r\n`)), 431)
    t.equal(status(request(`a:${'b'.repeat(18)}\r\n`.repeat(2))), 0, 'over two lines')
    t.equal(status(request(`a:${'b'.repeat(18)}\r\na:${'b'.repeat(19)}\r\n`)), 431)
    t.equal(status(request('a:b\r\n'.repeat(4))), 0)
    t.equal(status(request('a:b\r\n'.repeat(5))), 431)
  },
)
