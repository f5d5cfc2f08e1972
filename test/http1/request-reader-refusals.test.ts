import t, { type Test } from 'tap'
import type { HeadLimits } from '../../src/http1/byte-queue.js'
import { LIMITS, readEveryWay } from '../kit/peers/transcript.js'

/** [description, bytes, message of the error]; `^` is prepended. */
type Refused = readonly [string, string, string]

const HOST = '\r\nHost: a\r\n\r\n'

function refuses(t: Test, table: readonly Refused[], limits: HeadLimits = LIMITS): void {
  for (const [name, input, error] of table) {
    t.match(readEveryWay(input, limits), { messages: [], error: new RegExp(`^${error}`) }, name)
  }
}

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

t.test('refuses a bare CR or a bare LF anywhere in the head (RFC 9112 §2.2)', async t => {
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

t.test('allows two empty lines before a request and refuses a third (RFC 9112 §2.2)', async t => {
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

t.test('refuses control bytes in a field value, except HTAB (RFC 9110 §5.5)', async t => {
  const codes = [...Array(0x20).keys(), 0x7f].filter(code => ![0x09, 0x0a, 0x0d].includes(code))
  for (const code of codes) {
    const byte = String.fromCharCode(code)
    for (const value of [`a${byte}b`, byte, `${byte}a`, `a${byte}`]) {
      const input = `GET / HTTP/1.1\r\nX: ${value}\r\n\r\n`
      refuses(t, [[`0x${code.toString(16)}`, input, '400 malformed: control character in a field value']])
    }
  }
})

t.test('decides the framing from the head and refuses ambiguous framing (RFC 9112 §6.3, §7)', async t => {
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

t.test('answers 501 to a method that is too long, and 414 to a target that is (RFC 9112 §3)', async t => {
  // The input is divided at each of its bytes, so the limit is low here.
  const limits = { ...LIMITS, targetBytes: 512 }
  const long = 'X'.repeat(600)
  const notImplemented = '501 method_not_implemented: method not implemented'
  const table: readonly Refused[] = [
    ['a long method', `${long} / HTTP/1.1${HOST}`, notImplemented],
    ['a long method without end', long, notImplemented],
    ['both too long', `${long} /${long} HTTP/1.1${HOST}`, notImplemented],
    ['55 bytes before a long target', `${'M'.repeat(55)} /${long} HTTP/1.1${HOST}`, notImplemented],
    ['54 bytes before a long target', `${'M'.repeat(54)} /${long} HTTP/1.1${HOST}`, '414 target_bytes'],
    ['a long target', `GET /${long} HTTP/1.1${HOST}`, '414 target_bytes'],
    ['what is no token', `${'X'.repeat(20)}@${long} / HTTP/1.1${HOST}`, '414 target_bytes'],
  ]
  refuses(t, table, limits)
})
