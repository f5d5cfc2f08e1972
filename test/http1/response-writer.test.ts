import t from 'tap'
import { CHUNK_END, chunkHead } from '../../src/http1/content-writer.js'
import { type ResponseHead, ResponseWriter } from '../../src/http1/response-writer.js'

const GET = { method: 'GET', minor: 1, persistent: true } as const
const HEAD = { ...GET, method: 'HEAD' } as const
const OLD = { ...GET, minor: 0, persistent: false } as const

const ok = (contentLength?: number, ...fields: string[]): ResponseHead => ({
  status: 200,
  reason: 'OK',
  fields,
  contentLength,
})

/** The complete response as written on the wire. */
function written(
  writer: ResponseWriter,
  head: ResponseHead,
  pieces: string[] = [],
  trailers: string[] = [],
): string {
  let wire = writer.head(head)
  for (const piece of pieces) {
    writer.count(piece.length)
    wire += writer.framing === 'chunked' ? chunkHead(piece.length) + piece + CHUNK_END : piece
  }
  return wire + writer.end(trailers)
}

t.test('content of known length has Content-Length and is written unchanged (RFC 9112 §6.2)', async t => {
  const writer = new ResponseWriter(GET)
  t.equal(
    written(writer, ok(5, 'Content-Type', 'text/plain'), ['he', 'llo']),
    'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello',
  )
  t.not(writer.framing, 'none')
  t.notOk(writer.closes)
  t.notOk(writer.untilClose)
})

t.test('a length of 0 means no content', async t => {
  const writer = new ResponseWriter(GET)
  t.equal(written(writer, ok(0)), 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  t.equal(writer.framing, 'none')
})

t.test('content of unknown length is chunked in HTTP/1.1 (RFC 9112 §7.1)', async t => {
  const writer = new ResponseWriter(GET)
  t.equal(
    written(writer, ok(), ['hello', 'x'.repeat(26)]),
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1a\r\n${'x'.repeat(26)}\r\n0\r\n\r\n`,
  )
  t.not(writer.framing, 'none')
  t.notOk(writer.closes)
  const empty = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
  t.equal(written(new ResponseWriter(GET), ok()), empty)
})

t.test(
  'for an HTTP/1.0 client, content of unknown length ends with the connection (RFC 9112 §6.3)',
  async t => {
    for (const persistent of [false, true]) {
      const writer = new ResponseWriter({ ...OLD, persistent })
      t.equal(
        written(writer, ok(), ['hello'], ['X', 'y']),
        'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello',
      )
      t.ok(writer.closes)
      t.ok(writer.untilClose)
    }
  },
)

t.test('an HTTP/1.0 client that requests keep-alive gets keep-alive (RFC 9112 §9.3)', async t => {
  const writer = new ResponseWriter({ ...OLD, persistent: true })
  t.equal(
    written(writer, ok(1), ['a']),
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na',
  )
  t.notOk(writer.closes)
})

t.test('says close when the client does not persist, or when it must (RFC 9112 §9.6)', async t => {
  const closed = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  t.equal(new ResponseWriter({ ...GET, persistent: false }).head(ok(0)), closed)
  t.equal(new ResponseWriter(OLD).head(ok(0)), closed)
  for (const minor of [0, 1] as const) {
    const writer = new ResponseWriter({ ...GET, minor })
    writer.mustClose()
    t.equal(writer.head(ok(0)), closed)
    t.ok(writer.closes)
  }
})

t.test('a response to HEAD has the fields of GET and never content (RFC 9110 §9.3.2)', async t => {
  for (const [length, line] of [
    [undefined, ''],
    [0, 'Content-Length: 0\r\n'],
    [7, 'Content-Length: 7\r\n'],
  ] as const) {
    const writer = new ResponseWriter(HEAD)
    t.equal(
      written(writer, ok(length, 'ETag', '"a"'), [], ['X', 'y']),
      `HTTP/1.1 200 OK\r\nETag: "a"\r\n${line}\r\n`,
    )
    t.equal(writer.framing, 'none')
    t.notOk(writer.closes)
  }
  const error = { ...ok(3), status: 403, reason: 'No' }
  t.equal(written(new ResponseWriter(HEAD), error), 'HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\n')
  const old = 'HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n'
  t.equal(written(new ResponseWriter({ ...HEAD, minor: 0 }), ok()), old, 'HTTP/1.0 needs no close')
})

t.test('a 204 has neither content nor framing fields (RFC 9110 §6.4.1)', async t => {
  for (const length of [undefined, 0, 5]) {
    const writer = new ResponseWriter(GET)
    const head = { ...ok(length, 'ETag', '"a"'), status: 204, reason: 'No Content' }
    t.equal(written(writer, head), 'HTTP/1.1 204 No Content\r\nETag: "a"\r\n\r\n')
    t.equal(writer.framing, 'none')
  }
})

t.test('a 304 may have the length of the content that is not sent (RFC 9112 §6.2)', async t => {
  const head = { status: 304, reason: 'Not Modified', fields: [] }
  t.equal(written(new ResponseWriter(GET), head), 'HTTP/1.1 304 Not Modified\r\n\r\n')
  const writer = new ResponseWriter(GET)
  const known = 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n'
  t.equal(written(writer, { ...head, contentLength: 9 }), known)
  t.equal(writer.framing, 'none')
})

t.test('nothing can be written after a head without content (RFC 9112 §6.3)', async t => {
  for (const [context, head] of [
    [HEAD, ok(5)],
    [HEAD, ok()],
    [GET, { ...ok(5), status: 204 }],
    [GET, { ...ok(5), status: 304 }],
    [GET, ok(0)],
  ] as const) {
    const writer = new ResponseWriter(context)
    writer.head(head)
    t.not(writer.framing, 'chunked')
    writer.count(0)
    t.throws(() => writer.count(1), RangeError)
    t.equal(writer.end(['X', 'y']), '')
  }
})

t.test('content must be exactly as long as declared (RFC 9112 §6.3)', async t => {
  const long = new ResponseWriter(GET)
  long.head(ok(3))
  long.count(2)
  t.throws(() => long.count(2), new RangeError('more content than the head declares'))
  const short = new ResponseWriter(GET)
  short.head(ok(3))
  short.count(2)
  t.throws(() => short.end([]), new RangeError('less content than the head declares'))
  short.count(1)
  t.equal(short.end([]), '')
})

t.test('chunked content has trailers, other content drops them (RFC 9112 §7.1.2)', async t => {
  t.equal(
    written(new ResponseWriter(GET), ok(), ['a'], ['X-Sum', '1', 'Content-Length', '9', 'x-sum', '2']),
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n',
  )
  t.equal(written(new ResponseWriter(GET), ok(1), ['a'], ['X-Sum', '1']).slice(-5), '\r\n\r\na')
})

t.test('omits framing and Connection fields that a handler passes, in any case (RFC 9112 §6)', async t => {
  const fields = [
    'Transfer-Encoding',
    'gzip',
    'content-length',
    '99',
    'Connection',
    'x',
    'KEEP-ALIVE',
    '5',
    'A',
    'b',
  ]
  const head = new ResponseWriter(GET).head(ok(2, ...fields, 'Proxy-Connection', 'close'))
  t.equal(head, 'HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\n')
})

t.test(
  'keeps order, case, repetitions and bytes of the fields, and an empty reason (RFC 9112 §4)',
  async t => {
    const head = { status: 299, reason: '', fields: ['b', '1', 'A', '', 'B', '\xff'], contentLength: 0 }
    t.equal(
      new ResponseWriter(GET).head(head),
      'HTTP/1.1 299 \r\nb: 1\r\nA: \r\nB: \xff\r\nContent-Length: 0\r\n\r\n',
    )
  },
)

t.test('interim responses are sent only to HTTP/1.1 clients (RFC 9110 §15)', async t => {
  const fields = ['Link', '</a>', 'Content-Length', '5']
  t.equal(
    new ResponseWriter(GET).interim(103, 'Early Hints', fields),
    'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n',
  )
  t.equal(new ResponseWriter(GET).interim(100, 'Continue', []), 'HTTP/1.1 100 Continue\r\n\r\n')
  t.equal(new ResponseWriter(OLD).interim(100, 'Continue', []), '', 'HTTP/1.0 knows none (RFC 9110 §15.2)')
})

t.test('the 2xx to CONNECT has no framing and no Connection fields (RFC 9110 §9.3.6)', async t => {
  const fields = ['Content-Length', '0', 'Transfer-Encoding', 'chunked', 'X', 'y']
  for (const minor of [0, 1] as const) {
    const writer = new ResponseWriter({ method: 'CONNECT', minor, persistent: false })
    const head = writer.switchingHead(200, 'Connection Established', fields)
    t.equal(head, 'HTTP/1.1 200 Connection Established\r\nX: y\r\n\r\n')
  }
})

t.test('a refused CONNECT is answered like any other request (RFC 9110 §9.3.6)', async t => {
  const writer = new ResponseWriter({ method: 'CONNECT', minor: 1, persistent: true })
  writer.mustClose()
  const head = { status: 403, reason: 'Forbidden', fields: [], contentLength: 2 }
  t.equal(
    written(writer, head, ['no']),
    'HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno',
  )
})

t.test('101 names the protocol that follows (RFC 9110 §15)', async t => {
  const head = new ResponseWriter(GET).switchingHead(
    101,
    'Switching Protocols',
    ['Sec-WebSocket-Accept', 'x'],
    'websocket',
  )
  t.equal(
    head,
    'HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  )
})
