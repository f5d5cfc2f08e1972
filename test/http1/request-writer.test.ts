/** Requests as written on the wire (RFC 9112 §3, §5, §6). */
import t from 'tap'
import { endToEndFields, isPersistent } from '../../src/http/connection.js'
import { FIELD, fieldSet } from '../../src/http/field-section.js'
import { CHUNK_END, chunkHead } from '../../src/http1/content-writer.js'
import { contentWriter, type OutgoingRequest, serializeRequestHead } from '../../src/http1/request-writer.js'
import { RequestReader } from '../../src/http1/request-reader.js'
import { LIMITS } from '../kit/peers/transcript.js'

const REQUEST: OutgoingRequest = {
  method: 'GET',
  path: '/p?q',
  host: 'a.test:8080',
  fields: ['X', '\xff', 'x', 'y'],
  content: undefined,
  sendsZeroLength: false,
  expectContinue: false,
  upgrade: undefined,
}
const START = 'Host: a.test:8080\r\nX: \xff\r\nx: y\r\n'
const KEEP = 'Connection: keep-alive\r\n\r\n'

const head = (changes: Partial<OutgoingRequest> = {}) => serializeRequestHead({ ...REQUEST, ...changes })

t.test('Host comes first, the fields follow in their order and case (RFC 9110 §5.3, §7.2)', async t => {
  t.equal(head(), `GET /p?q HTTP/1.1\r\n${START}${KEEP}`)
  t.equal(
    head({ method: 'propFind', path: '*', sendsZeroLength: true }).split('\r\n')[0],
    'propFind * HTTP/1.1',
  )
})

t.test(
  'content of known length has Content-Length, other content is chunked (RFC 9112 §6.1, §6.2)',
  async t => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      t.equal(
        head({ method, content: { length: 5 } }),
        `${method} /p?q HTTP/1.1\r\n${START}Content-Length: 5\r\n${KEEP}`,
      )
      t.equal(
        head({ method, content: { length: undefined } }),
        `${method} /p?q HTTP/1.1\r\n${START}Transfer-Encoding: chunked\r\n${KEEP}`,
      )
    }
  },
)

t.test('a method with defined content says when it has none (RFC 9110 §8.6)', async t => {
  for (const [method, says] of [
    ['POST', true],
    ['PUT', true],
    ['PATCH', true],
    ['PROPFIND', true],
    ['GET', false],
    ['HEAD', false],
    ['DELETE', false],
    ['OPTIONS', false],
    ['TRACE', false],
  ] as const) {
    t.equal(head({ method }).includes('Content-Length: 0\r\n'), says, method)
    t.match(head({ method, sendsZeroLength: true }), 'Content-Length: 0\r\n', method)
  }
})

t.test('Trailer is omitted where no trailer can follow (RFC 9110 §6.6.2)', async t => {
  const fields = ['trailer', 'X-T', 'A', 'trailer', 'TRAILER', 'b']
  t.match(head({ fields, content: { length: 1 } }), '8080\r\nA: trailer\r\nContent-Length: 1\r\n')
  t.match(head({ fields }), '8080\r\nA: trailer\r\nConnection')
  t.match(
    head({ fields, content: { length: undefined } }),
    '8080\r\ntrailer: X-T\r\nA: trailer\r\nTRAILER: b\r\n',
  )
})

t.test('Expect and Upgrade are written as requested (RFC 9110 §7.8, §10.1.1)', async t => {
  t.equal(
    head({ method: 'PUT', content: { length: 2 }, expectContinue: true }),
    `PUT /p?q HTTP/1.1\r\n${START}Content-Length: 2\r\nExpect: 100-continue\r\n${KEEP}`,
  )
  t.equal(
    head({ upgrade: 'websocket' }),
    `GET /p?q HTTP/1.1\r\n${START}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
})

t.test('framing and connection fields that are passed in are ignored (RFC 9112 §11.2)', async t => {
  const fields = [
    'Content-Length',
    '9',
    'Transfer-Encoding',
    'chunked',
    'connection',
    'close',
    'Keep-Alive',
    'a',
  ]
  t.equal(head({ fields }), `GET /p?q HTTP/1.1\r\nHost: a.test:8080\r\n${KEEP}`)
})

t.test('CONNECT has neither content nor Connection (RFC 9110 §9.3.6)', async t => {
  t.equal(
    head({ method: 'CONNECT', path: 'b.test:443', host: 'b.test:443', fields: ['Via', 'x'] }),
    'CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\nVia: x\r\n\r\n',
  )
})

t.test('text that would end a line early is never written (RFC 9112 §11.1)', async t => {
  for (const changes of [
    { path: '/ ' },
    { path: '' },
    { path: '/\r\nX: y' },
    { path: '/\xe9' },
    { method: 'GE T' },
    { method: '' },
    { host: 'a\r\nX: y' },
    { host: '' },
  ]) {
    t.throws(() => head(changes), TypeError, JSON.stringify(changes))
  }
})

t.test('the written request is parsed to the same request (RFC 9112 §6.3)', async t => {
  const cases = [
    [{ method: 'PUT', content: { length: 5 } }, ['hello'], 'hello'],
    [{ method: 'POST', content: { length: undefined } }, ['hel', '', 'lo'], 'hello'],
    [{ method: 'POST', content: { length: undefined } }, [], ''],
    [{ method: 'POST' }, [], ''],
    [{}, [], ''],
  ] as const
  for (const [changes, pieces, content] of cases) {
    const request = { ...REQUEST, ...changes }
    const writer = contentWriter(request)
    const body = pieces.map(piece => {
      writer.count(piece.length)
      return writer.framing === 'chunked' && piece !== ''
        ? chunkHead(piece.length) + piece + CHUNK_END
        : piece
    })
    const reader = new RequestReader(LIMITS)
    const trailers = writer.framing === 'chunked' ? ['X-T', 'a'] : []
    reader.input.push(
      Buffer.from(serializeRequestHead(request) + body.join('') + writer.end(trailers), 'latin1'),
    )
    let read = ''
    for (let event = reader.next(); event !== undefined; event = reader.next()) {
      if (event.type === 'data') read += event.chunk.toString()
      if (event.type === 'end') t.same(event.trailers, trailers)
    }
    t.equal(read, content)
    t.equal(reader.input.length, 0)
  }
})

t.test('content whose length differs from the declared one is a bug and throws', async t => {
  const writer = () => contentWriter({ content: { length: 3 } })
  t.throws(() => writer().count(4), RangeError)
  t.throws(() => writer().end([]), RangeError)
  t.throws(() => contentWriter({ content: undefined }).count(1), RangeError)
  const exact = writer()
  exact.count(3)
  t.equal(exact.end([]), '')
})

t.test('fields with usual names are parsed, judged and written without conversion to lower case', async t => {
  const reader = new RequestReader(LIMITS)
  const lines = ['Host: a.test', 'User-Agent: b', 'Accept: */*', 'accept-encoding: gzip', 'X-Forwarded-Id: 1']
  const lowered: string[] = []
  const { toLowerCase } = String.prototype
  t.intercept(String.prototype, 'toLowerCase', {
    value(this: string) {
      lowered.push(String(this))
      return toLowerCase.call(this)
    },
  })
  reader.input.push(Buffer.from(`GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`))
  const event = reader.next()
  if (event?.type !== 'head') throw new Error('no head')
  const { fields, minor } = event.head
  const isJudged = isPersistent(fields, minor, 'client') && fields.value(FIELD.host) === 'a.test'
  const written = head({ fields: endToEndFields(fields, fieldSet('host')) })
  t.same(lowered, [])
  t.ok(isJudged)
  t.match(written, `8080\r\n${lines.slice(1).join('\r\n')}\r\nConnection`)
})
