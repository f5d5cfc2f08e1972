import t from 'tap'
import { endToEndFields } from '../../src/http/connection.js'
import { FIELD, FieldSection, fieldSet } from '../../src/http/field-section.js'

function section(...lines: readonly string[]): FieldSection {
  const read = new FieldSection()
  // Each line lies within a text of more than itself.
  for (const line of lines) read.read(`a: b\r\n${line}\r\nc: d`, 6, 6 + line.length)
  return read
}

t.test('a name that something is decided by is known in any case (RFC 9110 §5.1)', async t => {
  for (const [name, id] of Object.entries(FIELD)) {
    for (const written of [
      name,
      name.toUpperCase(),
      name.replace(/\b[a-z]/g, first => first.toUpperCase()),
    ]) {
      const read = section('Server: x', `${written}: a`)
      t.ok(read.has(id), written)
      t.equal(read.value(id), 'a')
      t.same(read.list, ['Server', 'x', written, 'a'])
      t.same(FieldSection.of(read.list).value(id), 'a')
    }
    for (const other of [`${name}x`, `x${name}`, name.slice(1), `X${name.slice(1)}`]) {
      if (!(other.toLowerCase() in FIELD)) t.notOk(section(`${other}: a`).has(id), other)
    }
  }
})

t.test('repeats are told, and the first value is given', async t => {
  const read = section('Via: a', 'Server: x', 'via: b', 'Date: c')
  t.same(
    [read.isRepeated(FIELD.via), read.isRepeated(FIELD.date), read.has(FIELD.host)],
    [true, false, false],
  )
  t.same([read.value(FIELD.via), read.value(FIELD.host)], ['a', undefined])
  t.same([read.count, read.list.length], [4, 8])
})

t.test('members are those of all lines, in lower case (RFC 9110 §5.6.1)', async t => {
  const read = section('Connection: A, ,b\t,', 'Via: z', 'connection: Keep-Alive')
  t.same(read.members(FIELD.connection), ['a', 'b', 'keep-alive'])
  t.same(read.connectionOptions, ['a', 'b', 'keep-alive'])
  t.same(read.members(FIELD.host), [])
})

t.test('what goes on to the next hop is what goes on by the names alone (RFC 9110 §7.6.1)', async t => {
  const fields = [
    ...[
      'Host: a',
      'Connection: X-A, Host, close',
      'X-A: 1',
      'x-b: 2',
      'TE: trailers',
      'Keep-Alive: timeout=1',
    ],
    ...['Proxy-Authenticate: x', 'HTTP2-Settings: y', 'Upgrade: z', 'Transfer-Encoding: chunked', 'Via: v'],
    ...['Content-Length: 3', 'PROXY-CONNECTION: q', 'Set-Cookie: a', 'Set-Cookie: b'],
  ]
  for (const connection of ['X-A, Host, close', 'close', 'keep-alive', 'x-b', 'close, Set-Cookie']) {
    const read = section(...fields.map(line => line.replace('X-A, Host, close', connection)))
    t.same(read.endToEnd(0), endToEndFields(read.list), connection)
    t.same(
      read.endToEnd(fieldSet('content-length', 'via')),
      endToEndFields(read.list, new Set(['content-length', 'via'])),
      connection,
    )
  }
})

t.test('white space around a value is dropped, SP and HTAB alone (RFC 9110 §5.6.3)', async t => {
  t.same(section('A:\t b c \t', 'B: \xa0', 'C:', 'D: \t ').list, ['A', 'b c', 'B', '\xa0', 'C', '', 'D', ''])
})

t.test('what is no field line is 400 (RFC 9112 §5)', async t => {
  for (const [line, message] of [
    ['x', 'field line without a colon'],
    ['', 'field line without a colon'],
    [' a: b', 'folded field line'],
    ['\ta: b', 'folded field line'],
    [' ', 'folded field line'],
    ['a : b', 'bad field name'],
    ['Host : b', 'bad field name'],
    [': b', 'bad field name'],
    ['a\x80: b', 'bad field name'],
    ['a: \x01', 'control character in a field value'],
    ['Host: a\x7f', 'control character in a field value'],
    ['a: \r', 'control character in a field value'],
  ] as const) {
    t.throws(() => section(line), { name: 'ProxyError', status: 400, message }, JSON.stringify(line))
  }
})
