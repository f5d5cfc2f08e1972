import t from 'tap'
import { ByteQueue } from '../../src/http1/byte-queue.js'
import { ContentReader } from '../../src/http1/content-reader.js'

const LIMITS = { headerBytes: 100, headerFields: 2 }

function reading(...pieces: readonly string[]) {
  const input = new ByteQueue()
  for (const piece of pieces) input.push(Buffer.from(piece))
  const content = new ContentReader(input, LIMITS, new Set(['x-refused']))
  /** The next event: a piece of content, the trailers, or undefined. */
  const next = () => {
    const event = content.next()
    return event?.type === 'data' ? event.chunk.toString() : event?.trailers
  }
  return { input, content, next }
}

t.test('a message without content ends at once, and reads nothing (RFC 9112 §6.3)', async t => {
  for (const [framing, length] of [
    ['none', 0],
    ['none', 5],
    ['length', 0],
  ] as const) {
    const { input, content, next } = reading('abc')
    content.begin(framing, length)
    t.same([content.mayEnd, next(), input.length], [true, [], 3], `${framing} ${length}`)
  }
})

t.test(
  'content of a known length has exactly that many bytes, and what follows is not read (RFC 9112 §6.2)',
  async t => {
    const { input, content, next } = reading('ab', 'cde')
    content.begin('length', 4)
    t.same([next(), content.mayEnd, next(), content.mayEnd, next()], ['ab', false, 'cd', true, []])
    t.equal(input.length, 1)
    content.begin('length', 3)
    t.same([next(), next(), content.mayEnd], ['e', undefined, false])
  },
)

t.test('chunked content ends with its trailers, for each message separately (RFC 9112 §7.1)', async t => {
  const { input, content, next } = reading('2\r\nab\r\n0\r\nA: 1\r\nb: 2\r\n\r\n0\r\nC: 3\r\n\r\nx')
  content.begin('chunked', 0)
  t.same([next(), content.mayEnd, next()], ['ab', false, ['A', '1', 'b', '2']])
  content.begin('chunked', 0)
  t.same(next(), ['C', '3'])
  t.equal(input.length, 1)
})

t.test('the size of a trailer section is limited, and some names are refused in it', async t => {
  for (const [trailers, error] of [
    ['A: 1\r\nB: 2\r\nC: 3\r\n', { status: 431, message: 'trailers too large' }],
    [`A: ${'b'.repeat(98)}\r\n`, { status: 431, message: 'trailers too large' }],
    ['X-REFUSED: 1\r\n', { status: 400, message: 'field not allowed in trailers' }],
    ['A : 1\r\n', { status: 400, message: 'bad field name' }],
  ] as const) {
    const { content, next } = reading(`0\r\n${trailers}\r\n`)
    content.begin('chunked', 0)
    t.throws(next, { name: 'ProxyError', ...error }, trailers)
  }
})

t.test('content until the end of the connection is everything received (RFC 9112 §6.3)', async t => {
  const { input, content, next } = reading('ab', 'c')
  content.begin('until-close', 0)
  t.same([next(), next(), next(), content.mayEnd], ['ab', 'c', undefined, true])
  input.push(Buffer.from('d'))
  t.equal(next(), 'd')
})
