import t from 'tap'
import { type ReceivedHead, ResponseHeadReader } from '../../src/http1/response-head-reader.js'

/** The heads in these pieces, and what is left behind the last. */
function read(pieces: readonly string[], maxBytes = 1000): { heads: ReceivedHead[]; rest: string } {
  const reader = new ResponseHeadReader(maxBytes)
  const heads: ReceivedHead[] = []
  for (const piece of pieces) {
    reader.push(Buffer.from(piece, 'latin1'))
    for (let head = reader.next(); head !== undefined; head = reader.next()) heads.push(head)
  }
  return { heads, rest: heads.length === 0 ? '' : reader.takeRest().toString('latin1') }
}

t.test('a head, however it is cut (RFC 9112 §4, §5)', async t => {
  const text = 'HTTP/1.1 200 Fine \xfc\r\nA: b\r\na:  c \r\n\r\n'
  const expected = { status: 200, reason: 'Fine \xfc', fields: ['A', 'b', 'a', 'c'] }
  t.same(read([text]), { heads: [expected], rest: '' })
  t.same(read([...text]), { heads: [expected], rest: '' })
})

t.test('a reason may be empty, and the blank before it missing', async t => {
  for (const line of ['HTTP/1.1 204 ', 'HTTP/1.0 204']) {
    t.same(read([`${line}\r\n\r\n`]).heads, [{ status: 204, reason: '', fields: [] }])
  }
})

t.test('framing fields mean nothing: what follows is the rest (RFC 9110 §9.3.6)', async t => {
  const reader = new ResponseHeadReader(1000)
  reader.push(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: x\r\n\r\nabc\r\n'))
  t.equal(reader.next()?.status, 200)
  t.equal(reader.takeRest().toString(), 'abc\r\n')
})

t.test('heads may follow one another', async t => {
  const { heads } = read([
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
  ])
  t.same(
    heads.map(({ status, fields }) => [status, fields.length]),
    [
      [100, 0],
      [103, 2],
      [200, 0],
    ],
  )
})

t.test('what is no head of HTTP/1.0 or HTTP/1.1 is refused, as the fault of upstream', async t => {
  for (const line of [
    '',
    'HTTP/1.2 200 OK',
    'HTTP/2.0 200 OK',
    'http/1.1 200 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1 20 OK',
    'HTTP/1.1 2000 OK',
    'HTTP/1.1 200OK',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.1 200 OK\x7f',
    'ICY 200 OK',
    'HTTP/1.1 200 OK\r\nA b',
    'HTTP/1.1 200 OK\r\nA : b',
    'HTTP/1.1 200 OK\r\n A: b',
    'HTTP/1.1 200 OK\r\nA: b\0',
    'HTTP/1.1 200 OK\r\nA: b\nC: d',
    'HTTP/1.1 200 OK\rA: b',
  ]) {
    t.throws(
      () => read([`${line}\r\n\r\n`]),
      { message: /./, type: 'http_protocol_error', status: 502, side: 'upstream' },
      line,
    )
  }
})

t.test('all lines of one head together have a limit, and each head anew', async t => {
  const head = 'HTTP/1.1 100 OK\r\nA: b\r\n\r\n'
  t.equal(read([head, head], 19).heads.length, 2)
  t.throws(() => read([head], 18), { message: /./, type: 'http_response_header_section_size', status: 502 })
  t.throws(() => read(['HTTP/1.1 200 ', 'x'.repeat(20)], 19), {
    message: /./,
    type: 'http_response_header_section_size',
  })
})
