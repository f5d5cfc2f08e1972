import t, { type Test } from 'tap'
import { RequestReader } from '../../src/http1/request-reader.js'
import { LIMITS, readEveryWay } from './transcript.js'

/** [what it is, the bytes, what the error says]; `^` is put in front. */
type Refused = readonly [string, string, string]

const HOST = '\r\nHost: a\r\n\r\n'

function refuses(t: Test, table: readonly Refused[]): void {
  for (const [name, input, error] of table) {
    t.match(readEveryWay(input), { messages: [], error: new RegExp(`^${error}`) }, name)
  }
}

t.test('reads a request head into exact events (RFC 9112 §2)', async t => {
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

t.test('gives head, data and end, one at a time, as they are asked for (RFC 9112 §2.1)', async t => {
  const reader = new RequestReader(LIMITS)
  const input = 'POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.0\r\n\r\n'
  reader.push(Buffer.from(input))
  t.match(reader.next(), { type: 'head', head: { method: 'POST', framing: { kind: 'length', length: 5 } } })
  t.equal(reader.buffered, input.length - 39, 'the second request is not parsed yet')
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

t.test('what was read stands when later bytes do not parse (RFC 9112 §9.3)', async t => {
  const { messages, error } = readEveryWay('GET /1 HTTP/1.1\r\n\r\nGET /2\r\n\r\n')
  t.match(messages, [{ target: '/1', trailers: [] }])
  t.equal(error, '400 malformed: bad request line')
})

t.test('takes any token as method, by exact bytes (RFC 9112 §3)', async t => {
  for (const method of ['GET', 'Get', 'get', 'PROPFIND', "!#$%&'*+-.^_`|~09azAZ", 'PRI', 'X']) {
    t.equal(readEveryWay(`${method} / HTTP/1.1${HOST}`).messages[0]?.method, method)
  }
})

t.test('gives the target as its bytes, every visible one (RFC 9112 §3.2)', async t => {
  const visible = String.fromCharCode(...Array.from({ length: 94 }, (_, i) => 0x21 + i))
  for (const target of ['/', '*', 'a:443', 'http://h?x', visible, '/%00%zz']) {
    t.equal(readEveryWay(`GET ${target} HTTP/1.1${HOST}`).messages[0]?.target, target)
  }
})

t.test('HTTP/1.x above 1.0 reads as 1.1 (RFC 9110 §2.5)', async t => {
  for (const [version, minor] of [
    ['1.0', 0],
    ['1.1', 1],
    ['1.2', 1],
    ['1.9', 1],
  ] as const) {
    t.equal(readEveryWay(`GET / HTTP/${version}${HOST}`).messages[0]?.minor, minor)
  }
})

t.test('answers 505 to another major version (RFC 9110 §15.6.6)', async t => {
  refuses(t, [
    ['HTTP/2.0', `GET / HTTP/2.0${HOST}`, '505 http_version: HTTP version not supported'],
    ['the HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '505'],
    ['HTTP/0.9 written out', `GET / HTTP/0.9${HOST}`, '505'],
    ['HTTP/3.1', `GET / HTTP/3.1${HOST}`, '505'],
  ])
})

t.test('refuses a version that is not HTTP/digit.digit (RFC 9112 §2.3)', async t => {
  const versions = [
    'http/1.1',
    'Http/1.1',
    'HTTP/1',
    'HTTP/1.',
    'HTTP/1.10',
    'HTTP/11.1',
    'HTTP/01.1',
    'HTTP/1,1',
  ]
  const more = [
    'HTTP',
    'HTTP/1.1x',
    'xHTTP/1.1',
    'HTTPS/1.1',
    'HTTP/ 1.1',
    'HTTP/1.1\t',
    'HTTP/1.1\x00',
    'ICY/1.1',
  ]
  for (const version of [...versions, ...more]) {
    refuses(t, [[version, `GET / ${version}${HOST}`, '400 malformed: bad ']])
  }
})

t.test('refuses a request line that is not method SP target SP version (RFC 9112 §3)', async t => {
  refuses(t, [
    ['HTTP/0.9 simple request', 'GET /\r\n', '400 malformed: bad request line'],
    ['method alone', 'GET\r\n', '400 malformed: bad request line'],
    ['no target', `GET HTTP/1.1${HOST}`, '400 malformed: bad request line'],
    ['an empty target', `GET  HTTP/1.1${HOST}`, '400'],
    ['two spaces before the target', `GET  / HTTP/1.1${HOST}`, '400'],
    ['two spaces behind the target', `GET /  HTTP/1.1${HOST}`, '400'],
    ['a space in the target', `GET /a b HTTP/1.1${HOST}`, '400'],
    ['a space in front', ` GET / HTTP/1.1${HOST}`, '400'],
    ['a space behind', `GET / HTTP/1.1 ${HOST}`, '400'],
    ['tabs between', `GET\t/\tHTTP/1.1${HOST}`, '400'],
    ['a tab for the first space', `GET\t/ HTTP/1.1${HOST}`, '400'],
    ['a tab for the second space', `GET /\tHTTP/1.1${HOST}`, '400'],
    ['a tab in front', `\tGET / HTTP/1.1${HOST}`, '400'],
    ['a vertical tab for a space', `GET\x0b/ HTTP/1.1${HOST}`, '400'],
    ['a no-break space for a space', `GET\xa0/ HTTP/1.1${HOST}`, '400'],
    ['a method that is no token', `G@T / HTTP/1.1${HOST}`, '400 malformed: bad method'],
    ['a colon in the method', `GET: / HTTP/1.1${HOST}`, '400 malformed: bad method'],
    ['a quoted method', `"GET" / HTTP/1.1${HOST}`, '400 malformed: bad method'],
    ['a byte order mark', `\xef\xbb\xbfGET / HTTP/1.1${HOST}`, '400 malformed: bad method'],
    ['TLS sent to the plain port', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n', '400'],
  ])
})

t.test('refuses control bytes and bytes above 0x7e in the target (RFC 9112 §3.2)', async t => {
  const codes = [...Array(0x20).keys(), 0x7f, 0x80, 0xa0, 0xff].filter(code => code !== 0x0a && code !== 0x0d)
  for (const code of codes) {
    const input = `GET /a${String.fromCharCode(code)}b HTTP/1.1${HOST}`
    refuses(t, [[`0x${code.toString(16)}`, input, '400 malformed: bad byte in the request target']])
  }
})

t.test('refuses a bare CR or a bare LF in every place of the head (RFC 9112 §2.2)', async t => {
  const bare = '400 malformed: bare CR or LF'
  refuses(t, [
    ['LF ends the request line', `GET / HTTP/1.1\nHost: a\r\n\r\n`, bare],
    ['LF ends everything', `GET / HTTP/1.1\nHost: a\n\n`, bare],
    ['LF ends a field line', `GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n`, bare],
    ['LF ends the head', `GET / HTTP/1.1\r\nHost: a\r\n\n`, bare],
    ['CR ends a field line', `GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n`, bare],
    ['CR in the method', `G\rET / HTTP/1.1${HOST}`, bare],
    ['CR in the target', `GET /\r HTTP/1.1${HOST}`, bare],
    ['CR CR LF', `GET / HTTP/1.1\r\r\nHost: a\r\n\r\n`, bare],
    ['CR CR LF at the end', `GET / HTTP/1.1\r\nHost: a\r\n\r\r\n`, bare],
    ['CR in front', `\rGET / HTTP/1.1${HOST}`, bare],
    ['LF in front', `\nGET / HTTP/1.1${HOST}`, bare],
    ['CR in a value', `GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n`, bare],
    ['CR in a name', `GET / HTTP/1.1\r\nHost: a\r\nX\r: b\r\n\r\n`, bare],
  ])
})

t.test('allows two empty lines in front of a request and refuses a third (RFC 9112 §2.2)', async t => {
  const request = `GET / HTTP/1.1${HOST}`
  for (const count of [0, 1, 2]) t.equal(readEveryWay('\r\n'.repeat(count) + request).messages.length, 1)
  refuses(t, [['three', `\r\n\r\n\r\n${request}`, '400 malformed: empty lines before the request']])
  t.equal(readEveryWay(`${request}\r\n\r\n${request}\r\n${request}`).messages.length, 3, 'counted for each')
  t.match(readEveryWay(`${request}\r\n\r\n\r\n${request}`), { error: /^400/, messages: [{}] })
})

t.test('refuses field lines that are not name, colon, value (RFC 9112 §5, §5.1)', async t => {
  const line = (text: string) => `GET / HTTP/1.1\r\nHost: a\r\n${text}\r\n\r\n`
  refuses(t, [
    ['space before the colon', line('X : y'), '400 malformed: bad field name'],
    ['tab before the colon', line('X\t: y'), '400 malformed: bad field name'],
    ['space before the colon of a framing field', line('Transfer-Encoding : chunked'), '400'],
    ['empty name', line(': y'), '400 malformed: bad field name'],
    ['colon alone', line(':'), '400 malformed: bad field name'],
    ['no colon', line('X'), '400 malformed: field line without a colon'],
    ['space in the name', line('X Y: z'), '400 malformed: bad field name'],
    ['a byte above 0x7f in the name', line('X\xe9: y'), '400 malformed: bad field name'],
    ['a control byte in the name', line('X\x01: y'), '400 malformed: bad field name'],
    ['NUL in the name', line('\x00X: y'), '400 malformed: bad field name'],
    ['a separator in the name', line('X(Y): z'), '400 malformed: bad field name'],
    ['a vertical tab before the name', line('\x0bX: y'), '400 malformed: bad field name'],
    ['a request line as a field line', line('GET / HTTP/1.1'), '400 malformed: field line without a colon'],
  ])
})

t.test('refuses folded field lines (RFC 9112 §5.2)', async t => {
  refuses(t, [
    ['behind a field', 'GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n', '400 malformed: folded field line'],
    ['with a tab', 'GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n', '400 malformed: folded field line'],
    [
      'that looks like a field',
      'GET / HTTP/1.1\r\nX: y\r\n Host: z\r\n\r\n',
      '400 malformed: folded field line',
    ],
    ['in front of all', 'GET / HTTP/1.1\r\n Host: a\r\n\r\n', '400 malformed: folded field line'],
    ['of white space alone', 'GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n', '400 malformed: folded field line'],
  ])
})

t.test('refuses control bytes in a field value, HTAB apart (RFC 9110 §5.5)', async t => {
  const codes = [...Array(0x20).keys(), 0x7f].filter(code => ![0x09, 0x0a, 0x0d].includes(code))
  for (const code of codes) {
    const byte = String.fromCharCode(code)
    for (const value of [`a${byte}b`, byte, `${byte}a`, `a${byte}`]) {
      const input = `GET / HTTP/1.1\r\nX: ${value}\r\n\r\n`
      refuses(t, [[`0x${code.toString(16)}`, input, '400 malformed: control character in a field value']])
    }
  }
})

t.test('field values keep their bytes, HTAB and 0x80 to 0xff among them (RFC 9110 §5.5)', async t => {
  const codes = [...Array(256).keys()].filter(code => code === 9 || (code >= 0x20 && code !== 0x7f))
  const value = `x${String.fromCharCode(...codes)}x`
  const head = Buffer.from(`GET / HTTP/1.1\r\nX: ${value}\r\n\r\n`, 'latin1')
  t.same(readEveryWay(head).messages[0]?.fields, ['X', value])
  t.same(readEveryWay('GET / HTTP/1.1\r\nX: \xa0a\xa0\r\n\r\n').messages[0]?.fields, ['X', '\xa0a\xa0'])
})

t.test('decides the framing with the head and refuses what is open (RFC 9112 §6.3, §7)', async t => {
  const head = (...lines: string[]) => `POST / HTTP/1.1\r\nHost: a\r\n${lines.join('\r\n')}\r\n\r\n`
  refuses(t, [
    ['both', head('Content-Length: 5', 'Transfer-Encoding: chunked'), '400 malformed: Content-Length with'],
    ['two lengths', head('Content-Length: 5', 'Content-Length: 5'), '400 malformed: more than one'],
    ['a list of lengths', head('Content-Length: 5, 5'), '400 malformed: bad Content-Length'],
    ['a signed length', head('Content-Length: +5'), '400 malformed: bad Content-Length'],
    ['a negative length', head('Content-Length: -5'), '400 malformed: bad Content-Length'],
    ['a hex length', head('Content-Length: 0x5'), '400 malformed: bad Content-Length'],
    ['an empty length', head('Content-Length:'), '400 malformed: bad Content-Length'],
    ['a huge length', head('Content-Length: 18446744073709551617'), '400 malformed: bad Content-Length'],
    ['gzip', head('Transfer-Encoding: gzip'), '400 malformed: bad Transfer-Encoding'],
    ['gzip, chunked', head('Transfer-Encoding: gzip, chunked'), '501 transfer_coding'],
    ['chunked, gzip', head('Transfer-Encoding: chunked, gzip'), '400 malformed: bad Transfer-Encoding'],
    ['chunked twice', head('Transfer-Encoding: chunked, chunked'), '400 malformed: bad Transfer-Encoding'],
    [
      'two lines',
      head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
      '400 malformed: bad Transfer',
    ],
    ['a parameter', head('Transfer-Encoding: chunked;x=1'), '400 malformed: bad Transfer-Encoding'],
    ['identity', head('Transfer-Encoding: identity'), '400 malformed: bad Transfer-Encoding'],
    ['xchunked', head('Transfer-Encoding: xchunked'), '400 malformed: bad Transfer-Encoding'],
    ['empty', head('Transfer-Encoding:'), '400 malformed: bad Transfer-Encoding'],
    ['a vertical tab', head('Transfer-Encoding: \x0bchunked'), '400 malformed: control character'],
    [
      'in HTTP/1.0',
      'POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n',
      '400 malformed: Transfer-Encoding in',
    ],
  ])
})

t.test('content of a given length is its bytes, whatever they are (RFC 9112 §6.2)', async t => {
  const content = `${String.fromCharCode(...Array(256).keys())}\r\n\r\nGET / HTTP/1.1\r\n\r\n`
  const input = `POST / HTTP/1.1\r\nContent-Length: ${content.length}\r\n\r\n${content}`
  t.match(readEveryWay(input), { messages: [{ content, trailers: [] }], buffered: 0 })
  t.match(readEveryWay(input.slice(0, -1)).messages[0], {
    content: content.slice(0, -1),
    trailers: undefined,
  })
})

t.test('a Content-Length of 0 is no content (RFC 9112 §6.3)', async t => {
  const input = 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 0\r\n\r\n'
  t.match(readEveryWay(input).messages, [{ framing: 'none', trailers: [] }])
})

t.test('a head longer than what is converted at a time reads the same (RFC 9112 §2.1)', async t => {
  const fields = Array.from({ length: 60 }, (_, i) => `X-${i}: ${'v'.repeat(70)}`)
  const { messages } = readEveryWay(`GET / HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
  t.equal(messages[0]?.fields.length, 120)
  t.equal(messages[0]?.fields.at(-1), 'v'.repeat(70))
})

t.test('gives the bytes behind a head to whoever takes the connection over (RFC 9110 §9.3.6)', async t => {
  const reader = new RequestReader(LIMITS)
  reader.push(Buffer.from('CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03'))
  reader.push(Buffer.from('\x01more'))
  t.equal(reader.next()?.type, 'head')
  t.equal(reader.takeRest().toString('latin1'), '\x16\x03\x01more')
  t.equal(reader.buffered, 0)
  reader.push(Buffer.from('GET / HTTP/1.1\r\n\r\n'))
  t.equal(reader.next(), undefined, 'what comes later is not parsed as a request')
})

t.test('knows whether a request has begun, and what is known of it', async t => {
  const reader = new RequestReader(LIMITS)
  const feed = (text: string) => {
    reader.push(Buffer.from(text))
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

t.test('every refusal closes the connection, for its end is not known (RFC 9112 §11.2)', async t => {
  for (const input of ['\n', 'GET / HTTP/2.0\r\n', `GET /${'a'.repeat(9000)}`, 'GET / HTTP/1.1\r\n a\r\n']) {
    const reader = new RequestReader(LIMITS)
    reader.push(Buffer.from(input))
    t.throws(() => reader.next(), {
      name: 'ProxyError',
      close: true,
      type: 'http_request_error',
      side: 'client',
    })
  }
})
