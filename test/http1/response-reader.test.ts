/**
 * The response reader: a test for each row of the framing table, with every division of the input (RFC 9112 §4 to §9).
 */
import t from 'tap'
import { ResponseReader } from '../../src/http1/response-reader.js'
import {
  GET,
  RESPONSE_LIMITS,
  readResponsesEveryWay as read,
  transcribeResponses,
} from '../kit/peers/response-transcript.js'

const OK = 'HTTP/1.1 200 OK\r\n'
const HEAD = { method: 'HEAD', upgrade: false }
const CONNECT = { method: 'CONNECT', upgrade: false }
const UPGRADE = { method: 'GET', upgrade: true }
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'

t.test('a response to HEAD ends with its head, whatever its fields say (RFC 9112 §6.3, 1)', async t => {
  for (const [fields, length] of [
    ['Content-Length: 5\r\n', 5],
    ['Transfer-Encoding: chunked\r\n', undefined],
    ['', undefined],
  ] as const) {
    t.match(read(`${OK}${fields}\r\n`, { requests: [HEAD], ends: false }), {
      responses: [{ status: 200, length, content: '', trailers: [], persistent: true }],
      error: undefined,
      buffered: 0,
    })
  }
})

t.test('204 and 304 end with their head, whatever their fields say (RFC 9112 §6.3, 1)', async t => {
  for (const status of [204, 304]) {
    for (const fields of ['', 'Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n']) {
      t.match(read(`HTTP/1.1 ${status} X\r\n${fields}\r\n`, { ends: false }), {
        responses: [{ status, content: '', trailers: [], persistent: true }],
        error: undefined,
      })
    }
  }
})

t.test(
  'interim responses precede the final one, requested or not (RFC 9112 §6.3, 1; RFC 9110 §15.2)',
  async t => {
    const interim =
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\nContent-Length: 5\r\n\r\nHTTP/1.0 199 \r\n\r\n'
    t.match(read(`${interim}${OK}Content-Length: 2\r\n\r\nhi`, { ends: false }), {
      responses: [{ status: 200, interim: [100, 103, 199], content: 'hi', trailers: [], persistent: true }],
    })
  },
)

t.test('101 ends HTTP if an Upgrade was offered, and is an error otherwise (RFC 9110 §15.2.2)', async t => {
  t.match(transcribeResponses([Buffer.from(`${SWITCH}x`)], { requests: [UPGRADE], ends: false }), {
    responses: [{ status: 101, rest: '' }],
    buffered: 1,
  })
  t.match(read(SWITCH), {
    responses: [],
    error: '502 http_upgrade_failed: status code 101 without an Upgrade request',
  })
  t.match(read(SWITCH, { requests: [CONNECT] }), {
    error: '502 http_protocol_error: status code 101 in response to CONNECT',
  })
  t.match(read(`${OK}Content-Length: 0\r\n\r\n`, { requests: [UPGRADE], ends: false }), {
    responses: [{ status: 200, trailers: [] }],
  })
})

t.test(
  '2xx to CONNECT ends HTTP, and its framing fields are ignored (RFC 9112 §6.3, 2; RFC 9110 §9.3.6)',
  async t => {
    for (const fields of [
      '',
      'Content-Length: 5\r\n',
      'Content-Length: 5\r\nContent-Length: x\r\n',
      'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n',
    ]) {
      for (const status of [200, 204, 299]) {
        t.match(read(`HTTP/1.0 ${status}\r\n${fields}\r\n`, { requests: [CONNECT], ends: false }), {
          responses: [{ status, reason: '', rest: '' }],
          error: undefined,
        })
      }
    }
    t.match(read('HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno', { requests: [CONNECT], ends: false }), {
      responses: [{ status: 403, content: 'no', trailers: [], persistent: true }],
    })
  },
)

t.test('all bytes that follow a switch are returned', async t => {
  const reader = new ResponseReader(RESPONSE_LIMITS)
  reader.expect(UPGRADE)
  for (const piece of ['HTTP/1.1 101 X\r\n', '\r\nab', 'cd']) reader.input.push(Buffer.from(piece))
  t.match(reader.next(), { type: 'switched', head: { status: 101 } })
  t.equal(reader.next(), undefined)
  t.equal(reader.takeRest().toString(), 'abcd')
})

t.test('Transfer-Encoding and Content-Length together are refused (RFC 9112 §6.3, 3)', async t => {
  for (const fields of [
    'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n',
    'transfer-encoding: chunked\r\ncontent-length: 0\r\n',
  ]) {
    const error = '502 http_protocol_error: response with Content-Length and Transfer-Encoding'
    t.match(read(`${OK}${fields}\r\n`), { responses: [], error })
    t.match(read(`${OK}${fields}\r\n`, { requests: [HEAD] }), { responses: [], error }, 'to HEAD too')
  }
})

t.test('chunked is the only transfer coding, alone and in HTTP/1.1 (RFC 9112 §6.1, §6.3, 4)', async t => {
  t.match(
    read(`${OK}TRANSFER-ENCODING: Chunked\r\n\r\n005;a="b"\r\nhello\r\n1\r\n!\r\n0;c\r\nX-T: a\r\n\r\n`, {
      ends: false,
    }),
    { responses: [{ content: 'hello!', trailers: ['X-T', 'a'], persistent: true, length: undefined }] },
  )
  for (const coding of [
    'gzip, chunked',
    'gzip',
    'chunked, gzip',
    'chunked, chunked',
    'chunked\r\nTransfer-Encoding: chunked',
    'chunked;a=b',
    'identity',
    ',chunked',
    '',
  ]) {
    t.match(read(`${OK}Transfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`), {
      responses: [],
      error: /^502 http_response_transfer_coding: /,
    })
  }
  t.match(read('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'), {
    error: '502 http_response_transfer_coding: Transfer-Encoding in an HTTP/1.0 response',
  })
})

t.test('a length that is not one number is refused (RFC 9112 §6.3, 5)', async t => {
  for (const lines of [
    'Content-Length: 2\r\nContent-Length: 2',
    'Content-Length: 2\r\nX: y\r\ncontent-length: 3',
    'CONTENT-LENGTH: 2, 2',
    'Content-Length: +2',
    'Content-Length: -2',
    'Content-Length: 0x2',
    'Content-Length: ',
    'Content-Length: 9007199254740992',
  ]) {
    t.match(read(`${OK}${lines}\r\n\r\nhi`), {
      responses: [],
      error: '502 http_protocol_error: bad Content-Length in the response',
    })
  }
})

t.test('content of a length ends with its last byte (RFC 9112 §6.3, 6)', async t => {
  t.match(read(`${OK}Content-Length: 5\r\n\r\nhello`, { ends: false }), {
    responses: [{ content: 'hello', length: 5, trailers: [], persistent: true }],
    buffered: 0,
  })
  t.match(read(`${OK}Content-Length: 0\r\n\r\n`, { ends: false }), {
    responses: [{ content: '', length: 0, trailers: [] }],
  })
  t.match(read(`${OK}Content-Length: 5\r\n\r\nhell`), {
    responses: [{ content: 'hell' }],
    error: '502 http_response_incomplete: response ended early',
  })
})

t.test('otherwise the content ends with the connection (RFC 9112 §6.3, 8)', async t => {
  for (const [head, minor] of [
    [OK, 1],
    ['HTTP/1.0 200 OK\r\n', 0],
    [`${OK}Connection: keep-alive\r\n`, 1],
  ] as const) {
    for (const content of ['', 'hello\r\n\r\n']) {
      t.match(read(`${head}\r\n${content}`), {
        responses: [{ content, minor, length: undefined, trailers: [], persistent: false }],
        error: undefined,
      })
      t.notOk(read(`${head}\r\n${content}`, { ends: false }).responses[0]?.trailers)
    }
  }
})

t.test('a connection that ends before the end of its response is an error (RFC 9112 §8)', async t => {
  for (const input of ['', 'H', '\r\n', 'HTTP/1.1 200', OK, `${OK}A: b\r\n`, 'HTTP/1.1 103 E\r\n\r\n']) {
    t.match(read(input), { responses: [], error: '502 connection_terminated: closed without a response' })
  }
  const chunked = `${OK}Transfer-Encoding: chunked\r\n\r\n`
  for (const content of ['', '3', '3\r\nab', '3\r\nabc', '3\r\nabc\r\n', '0\r\n', '0\r\nA: b\r\n']) {
    t.match(read(`${chunked}${content}`), {
      error: '502 http_response_incomplete: response ended early',
    })
  }
})

t.test('a connection persists according to the rules of its version (RFC 9112 §9.3)', async t => {
  const length = 'Content-Length: 0\r\n\r\n'
  for (const [head, persistent] of [
    [OK, true],
    [`${OK}Connection: close\r\n`, false],
    [`${OK}Connection: x, Close\r\n`, false],
    [`${OK}Connection: x\r\nCONNECTION: close\r\n`, false],
    [`${OK}Connection: keep-alive\r\n`, true],
    ['HTTP/1.0 200 OK\r\n', false],
    ['HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n', true],
    ['HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\n', false],
    ['HTTP/1.0 200 OK\r\nProxy-Connection: keep-alive\r\n', false],
    [`HTTP/1.1 103 E\r\nConnection: close\r\n\r\n${OK}`, false],
  ] as const) {
    const { responses } = read(head + length, { ends: false })
    t.equal(responses[0]?.persistent, persistent, head)
  }
})

t.test('responses are read one after another, each according to its request', async t => {
  const first = `${OK}Content-Length: 2\r\n\r\nhi`
  const requests = [GET, HEAD, GET]
  const { responses, buffered } = read(`${first}${OK}Content-Length: 9\r\n\r\n\r\n\r\n${first}`, {
    requests,
    ends: false,
  })
  t.same(
    responses.map(({ content, length }) => [content, length]),
    [
      ['hi', 2],
      ['', 9],
      ['hi', 2],
    ],
  )
  t.equal(buffered, 0)
})

t.test('unrequested bytes are not read, and are reported (RFC 9112 §11.1)', async t => {
  t.match(read(`${OK}Content-Length: 2\r\n\r\nhiHTTP/1.1 200`, { ends: false }), {
    responses: [{ content: 'hi' }],
    buffered: 12,
  })
})

t.test('the first byte of a response is reported, also of an empty line (RFC 9112 §9.3.1)', async t => {
  const reader = new ResponseReader(RESPONSE_LIMITS)
  for (const bytes of ['H', '\r\n']) {
    const fresh = new ResponseReader(RESPONSE_LIMITS)
    fresh.expect(GET)
    fresh.input.push(Buffer.alloc(0))
    t.equal(fresh.hasBegun, false)
    fresh.input.push(Buffer.from(bytes))
    t.equal(fresh.hasBegun, true)
  }
  reader.expect(GET)
  reader.input.push(Buffer.from('HTTP/1.1 204 X\r\n\r\n'))
  while (reader.next() !== undefined);
  reader.expect(GET)
  t.equal(reader.hasBegun, false, 'of the next one none has come')
  t.throws(() => reader.expect(GET), /request sent before the last response ended/)
})

t.test('a status line is of HTTP/1.0 or HTTP/1.1 (RFC 9112 §4)', async t => {
  for (const [line, reason] of [
    ['HTTP/1.1 200', ''],
    ['HTTP/1.1 200 ', ''],
    ['HTTP/1.1 200 Fine, \xe9\t!', 'Fine, \xe9\t!'],
    ['HTTP/1.1 200 a\0\x1b', 'a\0\x1b'],
    ['HTTP/1.1 999 X', 'X'],
    ['\r\n\r\nHTTP/1.1 200 OK', 'OK'],
  ] as const) {
    t.match(read(`${line}\r\nContent-Length: 0\r\n\r\n`, { ends: false }), { responses: [{ reason }] })
  }
  for (const line of [
    'HTTP/2.0 200 OK',
    'HTTP/0.9 200 OK',
    'HTTP/1.2 200 OK',
    'HTTP/1.10 200 OK',
    'HTTP/1. 200 OK',
    'http/1.1 200 OK',
    'ICY 200 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1\t200 OK',
    'HTTP/1.1 20 OK',
    'HTTP/1.1 2000 OK',
    'HTTP/1.1 200\tOK',
    'HTTP/1.1 20x OK',
    'HTTP/1.1 -20 OK',
    'HTTP/1.1',
    ' HTTP/1.1 200 OK',
    '<html>',
  ]) {
    t.match(read(`${line}\r\nContent-Length: 0\r\n\r\n`), {
      responses: [],
      error: '502 http_protocol_error: bad status line in a response',
    })
  }
  t.match(read('HTTP/1.1 099 X\r\n\r\n'), { error: /^502 http_protocol_error: status code 99 / })
})

t.test('lines end in CRLF, and fields are valid (RFC 9112 §2.2, §5)', async t => {
  for (const [lines, message] of [
    ['X: y\nA: b', /bare CR or LF/],
    ['X: a\rb', /bare CR or LF/],
    ['X: y\r\r\nA: b', /bare CR or LF/],
    ['X: a\r\n b', /folded/],
    [' X: a', /folded/],
    ['\tX: a', /folded/],
    ['X : y', /bad field name/],
    ['Content-Length : 2', /bad field name/],
    [': y', /bad field name/],
    ['X(: y', /bad field name/],
    ['X\xe9: y', /bad field name/],
    ['X', /without a colon/],
    ['X: \0', /control character/],
    ['Server: \x7f', /control character/],
  ] as const) {
    const { responses, error } = read(`${OK}${lines}\r\n\r\n`)
    t.same(responses, [], lines)
    t.match(error, /^502 http_protocol_error: .* in a response$/)
    t.match(error, message)
  }
  t.match(read(`${OK}Server:\t a b \t\r\nX:\r\nServer: \xff\r\ncontent-length:0\r\n\r\n`, { ends: false }), {
    responses: [{ fields: ['Server', 'a b', 'X', '', 'Server', '\xff', 'content-length', '0'], length: 0 }],
  })
})

t.test('invalid content is an error of the upstream (RFC 9112 §7.1)', async t => {
  for (const content of [
    'zz\r\n',
    '-1\r\n',
    '2\nhi\r\n',
    '2\r\nhixx',
    '2 \r\nhi\r\n',
    '\r\n',
    '2;a\rb\r\n',
    'ffffffffffffffffff\r\n',
    '0\r\nX : a\r\n\r\n',
    '0\r\nContent-Length: 5\r\n\r\n',
    '0\r\ntransfer-encoding: chunked\r\n\r\n',
  ]) {
    t.match(read(`${OK}Transfer-Encoding: chunked\r\n\r\n${content}`), {
      responses: [{ content: /^(hi)?$/ }],
      error: /^502 http_protocol_error: .* in a response$/,
    })
  }
  t.match(read(`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: a\r\n\r\n`, { ends: false }), {
    responses: [{ trailers: ['Set-Cookie', 'a'] }],
  })
})

t.test('the sizes of status line, header section, fields and trailers are limited', async t => {
  const limits = { headerBytes: 60, headerFields: 3 }
  const tooLarge = '502 http_response_header_section_size: response header section too large'

  await t.test('of the header section, its first line counted, line ends not', async t => {
    // 15 bytes, 17 bytes, and the rest of 60.
    const head = (last: number) => `${OK}Content-Length: 0\r\nX: ${'y'.repeat(last)}\r\n\r\n`
    t.match(read(head(25), { limits, ends: false }), { responses: [{ status: 200 }] })
    t.match(read(head(26), { limits }), { responses: [], error: tooLarge })
    t.match(read(`HTTP/1.1 200 ${'x'.repeat(47)}`, { limits }), { error: /closed without a response/ })
    t.match(read(`HTTP/1.1 200 ${'x'.repeat(49)}`, { limits }), { error: tooLarge })
    t.match(read('\r\n'.repeat(32), { limits }), { error: tooLarge })
  })

  await t.test('of the number of fields', async t => {
    const head = (count: number) => `HTTP/1.1 204 X\r\n${'A:b\r\n'.repeat(count)}\r\n`
    t.match(read(head(3), { limits, ends: false }), { responses: [{ status: 204 }] })
    t.match(read(head(4), { limits }), {
      error: '502 http_response_header_section_size: too many fields in a response',
    })
  })

  await t.test('of a header section are counted anew for each response', async t => {
    const interim = `HTTP/1.1 103 E\r\nLink: ${'y'.repeat(35)}\r\n\r\n`
    t.match(
      read(`${interim}${interim}HTTP/1.1 204 X\r\nX: ${'y'.repeat(40)}\r\n\r\n`, { limits, ends: false }),
      {
        responses: [{ interim: [103, 103] }],
      },
    )
  })

  await t.test('of interim responses', async t => {
    const flood = (count: number) => [
      Buffer.from(`${'HTTP/1.1 102 P\r\n\r\n'.repeat(count)}HTTP/1.1 204 X\r\n\r\n`),
    ]
    t.match(transcribeResponses(flood(100), { ends: false }), { responses: [{ status: 204 }] })
    t.match(transcribeResponses(flood(101)), { error: '502 http_protocol_error: too many interim responses' })
  })

  await t.test('of chunk extensions and trailers', async t => {
    const chunked = `${OK.replace(' OK', '')}Transfer-Encoding: chunked\r\n\r\n`
    const ask = (content: string) =>
      transcribeResponses([Buffer.from(chunked + content)], { limits, ends: false })
    t.match(ask(`1;${'a'.repeat(1030)}\r\n`), { error: /chunk line too long/ })
    t.match(ask(`${`1;${'a'.repeat(1000)}\r\nx\r\n`.repeat(5)}`), { error: /too many chunk extensions/ })
    t.match(ask(`0\r\nA: ${'b'.repeat(57)}\r\n\r\n`), { responses: [{ trailers: ['A', 'b'.repeat(57)] }] })
    t.match(ask(`0\r\nA: ${'b'.repeat(58)}\r\n\r\n`), {
      error: /^502 http_protocol_error: trailers too large/,
    })
    t.match(ask(`0\r\n${'A:b\r\n'.repeat(4)}\r\n`), { error: /trailers too large/ })
  })
})

t.test('content is returned as views of the input, never copied', async t => {
  const reader = new ResponseReader(RESPONSE_LIMITS)
  reader.expect(GET)
  const input = Buffer.from(`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`)
  reader.input.push(input)
  t.match(reader.next(), { type: 'head' })
  const event = reader.next()
  if (event?.type !== 'data') throw new Error('no data')
  t.equal(event.chunk.buffer, input.buffer)
  t.equal(event.chunk.byteOffset, input.byteOffset + input.indexOf('hello'))
})
