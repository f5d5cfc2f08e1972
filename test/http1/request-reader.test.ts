import t from 'tap'
import { RequestReader } from '../../src/http1/request-reader.js'
import { LIMITS, readEveryWay } from '../kit/peers/transcript.js'

const HOST = '\r\nHost: a\r\n\r\n'

t.test('parses a request head into the exact events (RFC 9112 §2)', async t => {
  t.same(
    readEveryWay('GET /p?q HTTP/1.1\r\nHost: a.example\r\nX-A:  one \r\nx-a:\ttwo\t\r\nEmpty:\r\n\r\n'),
    {
      messages: [
        {
          method: 'GET',
          target: '/p?q',
          minor: 1,
          fields: ['Host', 'a.example', 'X-A', 'one', 'x-a', 'two', 'Empty', ''],
          framing: 'none',
          content: '',
          trailers: [],
        },
      ],
      buffered: 0,
      inHead: false,
    },
  )
})

t.test('returns head, data and end, one for each call (RFC 9112 §2.1)', async t => {
  const reader = new RequestReader(LIMITS)
  const input = 'POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.0\r\n\r\n'
  reader.input.push(Buffer.from(input))
  t.match(reader.next(), { type: 'head', head: { method: 'POST', framing: { kind: 'length', length: 5 } } })
  t.equal(reader.input.length, input.length - 39, 'the second request is not parsed yet')
  t.same(reader.next(), { type: 'data', chunk: Buffer.from('hello') })
  t.same(reader.next(), { type: 'end', trailers: [] })
  t.ok(reader.inHead)
  t.match(reader.next(), { type: 'head', head: { method: 'GET', target: '/b', minor: 0, fields: [] } })
  t.notOk(reader.inHead)
  t.same(reader.next(), { type: 'end', trailers: [] })
  t.equal(reader.next(), undefined)
})

t.test('splits pipelined requests exactly, with and without content (RFC 9112 §9.3)', async t => {
  const input =
    'PUT /1 HTTP/1.1\r\nContent-Length: 10\r\n\r\nGET / HTTP' +
    'PUT /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n' +
    '\r\nGET /3 HTTP/1.0\r\n\r\nDELETE /4 HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /5'
  const { messages, buffered, inHead } = readEveryWay(input)
  t.same(
    messages.map(({ target, framing, content, trailers }) => [target, framing, content, trailers]),
    [
      ['/1', 'length 10', 'GET / HTTP', []],
      ['/2', 'chunked', 'abc', ['X', 'y']],
      ['/3', 'none', '', []],
      ['/4', 'none', '', []],
    ],
  )
  t.equal(buffered, 6)
  t.equal(inHead, true)
})

t.test('events remain valid when later bytes cannot be parsed (RFC 9112 §9.3)', async t => {
  const { messages, error } = readEveryWay('GET /1 HTTP/1.1\r\n\r\nGET /2\r\n\r\n')
  t.match(messages, [{ target: '/1', trailers: [] }])
  t.equal(error, '400 malformed: bad request line')
})

t.test('accepts any token as method, byte for byte (RFC 9112 §3)', async t => {
  for (const method of ['GET', 'Get', 'get', 'PROPFIND', "!#$%&'*+-.^_`|~09azAZ", 'PRI', 'X']) {
    t.equal(readEveryWay(`${method} / HTTP/1.1${HOST}`).messages[0]?.method, method)
  }
})

t.test('returns the target byte for byte, with every visible character (RFC 9112 §3.2)', async t => {
  const visible = String.fromCharCode(...Array.from({ length: 94 }, (_, i) => 0x21 + i))
  for (const target of ['/', '*', 'a:443', 'http://h?x', visible, '/%00%zz']) {
    t.equal(readEveryWay(`GET ${target} HTTP/1.1${HOST}`).messages[0]?.target, target)
  }
})

t.test('HTTP/1.x above 1.0 is treated as 1.1 (RFC 9110 §2.5)', async t => {
  for (const [version, minor] of [
    ['1.0', 0],
    ['1.1', 1],
    ['1.2', 1],
    ['1.9', 1],
  ] as const) {
    t.equal(readEveryWay(`GET / HTTP/${version}${HOST}`).messages[0]?.minor, minor)
  }
})

t.test('field values are not changed, with HTAB and 0x80 to 0xff (RFC 9110 §5.5)', async t => {
  const codes = [...Array(256).keys()].filter(code => code === 9 || (code >= 0x20 && code !== 0x7f))
  const value = `x${String.fromCharCode(...codes)}x`
  const head = Buffer.from(`GET / HTTP/1.1\r\nX: ${value}\r\n\r\n`, 'latin1')
  t.same(readEveryWay(head).messages[0]?.fields, ['X', value])
  t.same(readEveryWay('GET / HTTP/1.1\r\nX: \xa0a\xa0\r\n\r\n').messages[0]?.fields, ['X', '\xa0a\xa0'])
})

t.test('content of a given length is returned whatever its bytes are (RFC 9112 §6.2)', async t => {
  const content = `${String.fromCharCode(...Array(256).keys())}\r\n\r\nGET / HTTP/1.1\r\n\r\n`
  const input = `POST / HTTP/1.1\r\nContent-Length: ${content.length}\r\n\r\n${content}`
  t.match(readEveryWay(input), { messages: [{ content, trailers: [] }], buffered: 0 })
  t.match(readEveryWay(input.slice(0, -1)).messages[0], {
    content: content.slice(0, -1),
    trailers: undefined,
  })
})

t.test('a Content-Length of 0 means no content (RFC 9112 §6.3)', async t => {
  const input = 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 0\r\n\r\n'
  t.match(readEveryWay(input).messages, [{ framing: 'none', trailers: [] }])
})

t.test('a head longer than the converted window is parsed the same (RFC 9112 §2.1)', async t => {
  const fields = Array.from({ length: 60 }, (_, i) => `X-${i}: ${'v'.repeat(70)}`)
  const { messages } = readEveryWay(`GET / HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
  t.equal(messages[0]?.fields.length, 120)
  t.equal(messages[0]?.fields.at(-1), 'v'.repeat(70))
})

t.test('returns the bytes after a head when the connection is taken over (RFC 9110 §9.3.6)', async t => {
  const reader = new RequestReader(LIMITS)
  reader.input.push(Buffer.from('CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03'))
  reader.input.push(Buffer.from('\x01more'))
  t.equal(reader.next()?.type, 'head')
  t.equal(reader.takeRest().toString('latin1'), '\x16\x03\x01more')
  t.equal(reader.input.length, 0)
  reader.input.push(Buffer.from('GET / HTTP/1.1\r\n\r\n'))
  t.equal(reader.next(), undefined, 'what comes later is not parsed as a request')
})

t.test('knows whether a request has begun, and which parts are known', async t => {
  const reader = new RequestReader(LIMITS)
  const feed = (text: string) => {
    reader.input.push(Buffer.from(text))
    return reader.next()
  }
  t.notOk(reader.inHead)
  feed('G')
  t.ok(reader.inHead)
  t.same(reader.partial, { method: '', target: '' })
  feed('ET /x HTTP/1.1\r\n')
  t.ok(reader.inHead)
  t.same(reader.partial, { method: 'GET', target: '/x' })
  t.equal(feed('Content-Length: 1\r\n\r\n')?.type, 'head')
  t.notOk(reader.inHead)
  t.equal(feed('z')?.type, 'data')
  t.same(reader.partial, { method: 'GET', target: '/x' })
  t.equal(reader.next()?.type, 'end')
  t.same(reader.partial, { method: '', target: '' })
  feed('PUT /y HTTP/1.1\r\n')
  t.throws(() => feed(' bad\r\n'), { name: 'ProxyError', status: 400, close: true })
  t.same(reader.partial, { method: 'PUT', target: '/y' })
  t.notOk(reader.inHead)
  t.equal(feed('GET / HTTP/1.1\r\n\r\n'), undefined, 'nothing more after an error')
})

t.test(
  'every refusal closes the connection, as the end of the message is unknown (RFC 9112 §11.2)',
  async t => {
    for (const input of [
      '\n',
      'GET / HTTP/2.0\r\n',
      `GET /${'a'.repeat(9000)}`,
      'GET / HTTP/1.1\r\n a\r\n',
    ]) {
      const reader = new RequestReader(LIMITS)
      reader.input.push(Buffer.from(input))
      t.throws(() => reader.next(), {
        name: 'ProxyError',
        close: true,
        type: 'http_request_error',
        side: 'client',
      })
    }
  },
)

t.test('small chunks received together are one piece of content (RFC 9112 §7.1)', async t => {
  const reader = new RequestReader(LIMITS)
  const head = 'PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
  reader.input.push(Buffer.from(`${head}${'1\r\nx\r\n'.repeat(1000)}0\r\nX-Sum: 1\r\n\r\n`))
  t.match(reader.next(), { type: 'head' })
  t.same(reader.next(), { type: 'data', chunk: Buffer.from('x'.repeat(1000)) })
  t.same(reader.next(), { type: 'end', trailers: ['X-Sum', '1'] })
})

t.test('a large chunk is a view of the input, and so is one that nothing follows', async t => {
  const reader = new RequestReader(LIMITS)
  reader.input.push(Buffer.from('PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'))
  t.match(reader.next(), { type: 'head' })
  for (const pushed of [
    Buffer.from(`1000\r\n${'x'.repeat(4096)}\r\n`),
    Buffer.from('1\r\ny'),
    Buffer.from('\r\n1\r\nz\r\n'),
  ]) {
    reader.input.push(pushed)
    const event = reader.next()
    t.equal(event?.type === 'data' && event.chunk.buffer, pushed.buffer)
    t.equal(reader.next(), undefined)
  }
})

t.test('content before an invalid chunk is returned before the error is thrown (RFC 9112 §7.1)', async t => {
  const reader = new RequestReader(LIMITS)
  reader.input.push(
    Buffer.from('PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\r\ny\r\nz'),
  )
  reader.input.push(Buffer.from('z\r\n'))
  t.match(reader.next(), { type: 'head' })
  t.same(reader.next(), { type: 'data', chunk: Buffer.from('xy') })
  t.throws(() => reader.next(), { status: 400, message: 'bad chunk size' })
  t.equal(reader.next(), undefined)
})

t.test('no piece of joined content is much larger than one read', async t => {
  const reader = new RequestReader(LIMITS)
  reader.input.push(Buffer.from('PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'))
  reader.input.push(Buffer.from('1\r\nx\r\n'.repeat(100_000)))
  t.match(reader.next(), { type: 'head' })
  const lengths: number[] = []
  for (let event = reader.next(); event?.type === 'data'; event = reader.next())
    lengths.push(event.chunk.length)
  t.equal(Math.max(...lengths), 16_384)
  t.equal(lengths.length, 7)
})
