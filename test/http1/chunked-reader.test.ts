import t from 'tap'
import { LIMITS, readEveryWay } from '../kit/peers/transcript.js'

const HEAD = 'POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'

/** The result of a chunked body: its content and trailers, or the error. */
function read(body: string): string | { content: string; trailers: readonly string[] | undefined } {
  const { error, messages } = readEveryWay(HEAD + body)
  const [message] = messages
  if (error !== undefined) return error
  if (messages.length !== 1 || message === undefined) throw new Error('not one message')
  return { content: message.content, trailers: message.trailers }
}

const content = (text: string) => ({ content: text, trailers: [] })

t.test('joins the chunks and ends at the last one (RFC 9112 §7.1)', async t => {
  t.same(read('0\r\n\r\n'), content(''))
  t.same(read('5\r\nhello\r\n0\r\n\r\n'), content('hello'))
  t.same(read('5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n'), content('hello world'))
  t.same(read('4\r\n\r\n\r\n\r\n0\r\n\r\n'), content('\r\n\r\n'), 'content that looks like line ends')
  t.same(
    read(`a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n`),
    content('01234567890123456789'),
    'either case',
  )
  t.same(read(`1f\r\n${'x'.repeat(31)}\r\n00\r\n\r\n`), content('x'.repeat(31)))
  t.same(read(`0000000000005\r\nhello\r\n0000000000000\r\n\r\n`), content('hello'), '13 digits')
})

t.test('content of every byte value is returned unchanged (RFC 9112 §7.1)', async t => {
  const bytes = String.fromCharCode(...Array(256).keys())
  t.same(read(`100\r\n${bytes}\r\n0\r\n\r\n`), content(bytes))
})

t.test('the next request begins immediately after the last chunk (RFC 9112 §7.1)', async t => {
  const { messages } = readEveryWay(`${HEAD}1\r\nx\r\n0\r\n\r\n${HEAD}0\r\n\r\n`)
  t.equal(messages.length, 2)
})

t.test('returns no end before the last line was received (RFC 9112 §7.1)', async t => {
  for (const body of [
    '',
    '5',
    '5\r\n',
    '5\r\nhell',
    '5\r\nhello',
    '5\r\nhello\r',
    '5\r\nhello\r\n0\r\n',
    '0\r\n\r',
  ]) {
    t.equal(readEveryWay(HEAD + body).error, undefined)
    t.equal(readEveryWay(HEAD + body).messages[0]?.trailers, undefined, JSON.stringify(body))
  }
})

t.test('refuses a chunk size that is not only hexadecimal digits (RFC 9112 §7.1)', async t => {
  const sizes = [
    '',
    '-1',
    '+5',
    '0x5',
    '5h',
    'g',
    ' 5',
    '\t5',
    '5 ',
    '5\t',
    '5 5',
    '5,5',
    '5.0',
    '1_0',
    '"5"',
    '\x005',
    '5\x00',
    '5\x0b',
    '\xa05',
    '10000000000000',
    '00000000000005',
    'fffffffffffffffff',
    'FFFFFFFFFFFFFFFF',
  ]
  for (const size of sizes) {
    t.match(read(`${size}\r\nhello\r\n0\r\n\r\n`), /^400 malformed: bad chunk /, JSON.stringify(size))
  }
})

t.test('a size of 13 digits is exact and waits for its content (RFC 9112 §7.1)', async t => {
  t.same(readEveryWay(`${HEAD}fffffffffffff\r\nx`).messages[0]?.content, 'x')
})

t.test('refuses a chunk line or chunk data that does not end in CRLF (RFC 9112 §7.1)', async t => {
  for (const body of [
    '5\nhello\r\n0\r\n\r\n',
    '5\rhello\r\n0\r\n\r\n',
    '5\r\r\nhello\r\n0\r\n\r\n',
    '5\r\nhello\n0\r\n\r\n',
    '5\r\nhello\r0\r\n\r\n',
    '5\r\nhello0\r\n\r\n',
    '5\r\nhello!\r\n0\r\n\r\n',
    '4\r\nhello\r\n0\r\n\r\n',
    '5\r\nhello\r\n0\n\r\n',
    '5\r\nhello\r\n0\r\n\n',
    '5\r\nhello\r\n\r\n0\r\n\r\n',
    '0\r\n\r\r\n',
    '0;a\n\r\n',
    '0;a="\n"\r\n\r\n',
  ]) {
    t.match(read(body), /^400 malformed: /, JSON.stringify(body))
  }
})

t.test('checks chunk extensions and drops them (RFC 9112 §7.1.1)', async t => {
  for (const extension of [
    ';a',
    ';a=b',
    ';a="b"',
    ';a=""',
    ';a="b;c=d"',
    ';a="\\""',
    ';a="\\\\"',
    ';a="\t\\\t\x80\xff\\\xff"',
    ';a;b=c;d="e"',
    ' ; a = b ; c',
    '\t;\ta\t=\t"b"\t;\tc',
    ";!#$%&'*+-.^_`|~=1",
  ]) {
    t.same(
      read(`5${extension}\r\nhello\r\n0${extension}\r\n\r\n`),
      content('hello'),
      JSON.stringify(extension),
    )
  }
})

t.test('refuses bad chunk extensions (RFC 9112 §7.1.1)', async t => {
  for (const extension of [
    ';',
    '; ',
    ';;a',
    ';=b',
    ';a=',
    ';a=;b',
    ';a=b c',
    ';a ',
    ';a=b ',
    ';a="b" ',
    ';a="b',
    ';a="b"c',
    ';a="\\"',
    ';a=b"c"',
    ';a=(b)',
    ';a\x00',
    ';a="\x00"',
    ';a="\x7f"',
    ';a="\x0b"',
    ';a="\\\x00"',
    ';a="\r"',
    ';\xe9',
    ';a=\xe9',
    ',a',
    ' a',
  ]) {
    const errors = [read(`5${extension}\r\nhello\r\n0\r\n\r\n`), read(`0${extension}\r\n\r\n`)]
    for (const error of errors) t.match(error, /^400 malformed: /, JSON.stringify(extension))
  }
})

t.test('the length of a chunk line is limited (RFC 9112 §7.1.1)', async t => {
  const line = (bytes: number) => `0;${'a'.repeat(bytes - 2)}\r\n\r\n`
  t.same(read(line(1023)), content(''))
  t.same(read(line(1024)), content(''))
  t.equal(read(line(1025)), '400 malformed: chunk line too long')
  t.equal(read(`5;${'a'.repeat(1100)}`), '400 malformed: chunk line too long', 'before its end comes')
})

t.test('the length of all extensions of a message together is limited (RFC 9112 §7.1.1)', async t => {
  const chunks = (count: number, last: string) =>
    `${`1;${'a'.repeat(511)}\r\nx\r\n`.repeat(count)}0${last}\r\n\r\n`
  t.same(read(chunks(8, '')), content('xxxxxxxx'), 'exactly the bound')
  t.equal(read(chunks(8, ';')), '400 malformed: too many chunk extensions')
  t.same(read(chunks(7, `;${'a'.repeat(511)}`)), content('xxxxxxx'))
})

t.test('returns the trailer fields as received (RFC 9112 §7.1.2)', async t => {
  t.same(read('1\r\nx\r\n0\r\nETag: "a"\r\nX-Sum:  1\t\r\nx-sum:2\r\nE:\r\n\r\n'), {
    content: 'x',
    trailers: ['ETag', '"a"', 'X-Sum', '1', 'x-sum', '2', 'E', ''],
  })
  t.same(read('0\r\nServer-Timing: \x80\xff\r\n\r\n'), {
    content: '',
    trailers: ['Server-Timing', '\x80\xff'],
  })
})

t.test('refuses trailers that would control what has already been processed (RFC 9110 §6.5.1)', async t => {
  for (const name of [
    'Transfer-Encoding',
    'Content-Length',
    'content-length',
    'HOST',
    'Connection',
    'Trailer',
    'Authorization',
    'Proxy-Authorization',
    'Content-Type',
    'Content-Encoding',
    'Content-Range',
    'Cookie',
    'Set-Cookie',
    'Expect',
    'Max-Forwards',
    'TE',
    'Upgrade',
    'Range',
    'If-Match',
    'Cache-Control',
  ]) {
    t.equal(read(`0\r\n${name}: 1\r\n\r\n`), '400 malformed: field not allowed in trailers', name)
  }
})

t.test('refuses trailers with invalid syntax, like field lines of the head (RFC 9112 §7.1.2)', async t => {
  for (const line of [
    ' a: b',
    'a : b',
    ': b',
    'a',
    'a: \x00',
    'a: b\r\n c',
    'a: b\nc: d',
    'a: b\rc: d',
    'GET / HTTP/1.1',
  ]) {
    t.match(read(`0\r\n${line}\r\n\r\n`), /^400 malformed: /, JSON.stringify(line))
  }
})

t.test('too many trailer fields, or too large ones, are 431 (RFC 6585 §5)', async t => {
  const { headerFields } = LIMITS
  t.type(read(`0\r\n${'a:b\r\n'.repeat(headerFields)}\r\n`), 'object')
  t.match(read(`0\r\n${'a:b\r\n'.repeat(headerFields + 1)}\r\n`), /^431 /)
  const tooLarge = readEveryWay(`${HEAD}0\r\na:${'b'.repeat(99)}\r\n\r\n`, { ...LIMITS, headerBytes: 100 })
  t.match(tooLarge.error, /^431 header_bytes: trailers too large/)
})
