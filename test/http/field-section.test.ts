import t from 'tap'
import { FIELD, FieldSection, fieldId, fieldSet } from '../../src/http/field-section.js'
import { trimOws } from '../../src/http/fields.js'

function section(...lines: readonly string[]): FieldSection {
  const read = new FieldSection()
  // Each line is part of a longer text.
  for (const line of lines) read.read(`a: b\r\n${line}\r\nc: d`, 6, 6 + line.length)
  return read
}

t.test('a name that decisions depend on is recognised in any case (RFC 9110 §5.1)', async t => {
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

t.test('repetitions are reported, and the first value is returned', async t => {
  const read = section('Via: a', 'Server: x', 'via: b', 'Date: c')
  t.same(
    [read.isRepeated(FIELD.via), read.isRepeated(FIELD.date), read.has(FIELD.host)],
    [true, false, false],
  )
  t.same([read.value(FIELD.via), read.value(FIELD.host)], ['a', undefined])
  t.same([read.count, read.list.length], [4, 8])
})

t.test('a field with one line returns its value, and several lines are refused (RFC 9110 §5.3)', async t => {
  const read = section('A: x', 'HOST: a', 'Via: b', 'via: b')
  t.equal(read.single(FIELD.host, 'Host'), 'a')
  t.equal(read.single(FIELD.date, 'Date'), undefined)
  t.equal(section().single(FIELD.host, 'Host'), undefined)
  t.throws(() => read.single(FIELD.via, 'Via'), {
    name: 'ProxyError',
    status: 400,
    message: 'more than one Via',
  })
})

t.test('members are those of all lines, in lower case (RFC 9110 §5.6.1)', async t => {
  const read = section('Connection: A, ,b\t,', 'Via: z', 'connection: Keep-Alive')
  t.same(read.members(FIELD.connection), ['a', 'b', 'keep-alive'])
  t.same(read.connectionOptions, ['a', 'b', 'keep-alive'])
  t.same(read.members(FIELD.host), [])
})

t.test('the lists of all lines are joined in the order received (RFC 9110 §5.6.1)', async t => {
  const read = section('Via: x, Y ,,\tz', 'B: n', 'VIA:  , ', 'via: w')
  t.same(read.membersAsReceived(FIELD.via), ['x', 'Y', 'z', 'w'])
  t.same(read.values(FIELD.via), ['x, Y ,,\tz', ',', 'w'])
  t.same(read.values(FIELD.host), [])
  t.same(section().membersAsReceived(FIELD.via), [])
  t.same(section('Via: x\xa0,\x80y').membersAsReceived(FIELD.via), ['x\xa0', '\x80y'])
})

t.test('the bytes of the lines are counted as received, with white space (RFC 6585 §5)', async t => {
  t.equal(section().bytes, 0)
  t.equal(section('A:\t b ', 'Host: a').bytes, 13)
})

t.test('another value makes another section, and the first is unchanged', async t => {
  const read = section('A: 1', 'mAX-forwards: 5', 'max-forwards: 6', 'B: 5')
  const changed = read.withValue(FIELD['max-forwards'], '4')
  t.same(changed.list, ['A', '1', 'mAX-forwards', '4', 'max-forwards', '4', 'B', '5'])
  t.same(read.list, ['A', '1', 'mAX-forwards', '5', 'max-forwards', '6', 'B', '5'])
  t.same([changed.value(FIELD['max-forwards']), changed.isRepeated(FIELD['max-forwards'])], ['4', true])
  t.same(changed.ids, read.ids)
})

t.test('the number of a name can be looked up by the name, in any case (RFC 9110 §5.1)', async t => {
  for (const [name, id] of Object.entries(FIELD)) {
    for (const written of [name, name.toUpperCase(), `${name.slice(0, 1)}${name.slice(1).toUpperCase()}`]) {
      t.equal(fieldId(written), id, written)
    }
  }
  for (const name of ['', 'Server', 'X-Via', 'hosts', 'constructor', '__proto__', '\u212aeep-alive']) {
    t.equal(fieldId(name), 0, name)
  }
})

t.test('white space around a value is dropped, only SP and HTAB (RFC 9110 §5.6.3)', async t => {
  t.same(section('A:\t b c \t', 'B: \xa0', 'C:', 'D: \t ').list, ['A', 'b c', 'B', '\xa0', 'C', '', 'D', ''])
})

t.test('an invalid field line is 400 (RFC 9112 §5)', async t => {
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

/** name and value of a field line. */
const parse = (line: string) => section(line).list

t.test('parses a field line and appends name and value (RFC 9112 §5.1)', async t => {
  for (const [line, name, value] of [
    ['Host: a', 'Host', 'a'],
    ['Host:a', 'Host', 'a'],
    ['host:\t a \t', 'host', 'a'],
    ['X:', 'X', ''],
    ['X: ', 'X', ''],
    ['X: a: b', 'X', 'a: b'],
    ['X::', 'X', ':'],
    ["!#$%&'*+-.^_`|~1a: b\tc", "!#$%&'*+-.^_`|~1a", 'b\tc'],
    ['X: \x80\xff\xa0', 'X', '\x80\xff\xa0'],
  ] as const) {
    t.same(parse(line), [name, value], JSON.stringify(line))
  }
  t.same(section('A: 1', 'B: 2').list, ['A', '1', 'B', '2'])
})

t.test('refuses white space before the colon, and names that are not tokens (RFC 9112 §5.1)', async t => {
  for (const line of [
    'X : y',
    'X\t: y',
    'Host : a',
    ': y',
    ':',
    'X Y: z',
    'X\0: y',
    'X\xe9: y',
    '"X": y',
    'X\r: y',
  ]) {
    t.throws(
      () => parse(line),
      { name: 'ProxyError', status: 400, message: 'bad field name' },
      JSON.stringify(line),
    )
  }
  for (const line of ['', 'X', 'Host', 'a b']) {
    t.throws(
      () => parse(line),
      { name: 'ProxyError', status: 400, message: 'field line without a colon' },
      line,
    )
  }
})

t.test('refuses folded lines (RFC 9112 §5.2)', async t => {
  for (const line of [' ', '\t', ' a', ' X: y', '\tX: y', ' Host: a']) {
    t.throws(
      () => parse(line),
      { name: 'ProxyError', status: 400, message: 'folded field line' },
      JSON.stringify(line),
    )
  }
})

t.test('refuses control bytes in a value, also at its ends (RFC 9110 §5.5)', async t => {
  for (let code = 0; code < 0x100; code++) {
    const refused = (code < 0x20 && code !== 9) || code === 0x7f
    const char = String.fromCharCode(code)
    for (const value of [`a${char}b`, `${char}b`, `a${char}`]) {
      if (refused)
        t.throws(() => parse(`X: ${value}`), { name: 'ProxyError', status: 400 }, `0x${code.toString(16)}`)
      else t.equal(parse(`X: ${value}`)[1], trimOws(value), `0x${code.toString(16)}`)
    }
  }
})

t.test('names and values located by another parser give the same section as their lines', async t => {
  const text = 'HTTP/1.1 200 OK\r\nServer: x\r\nX-A:\t b \r\nCONNECTION: close, x\r\nEmpty:\r\n'
  const names = ['Server', 'X-A', 'CONNECTION', 'Empty']
  const values = ['x', 'b ', 'close, x', '']
  const message = Buffer.from(text, 'latin1')
  const views = names.flatMap((name, i) => {
    const at = message.indexOf(`${name}:`, 0, 'latin1')
    const value = values[i] as string
    const valueAt = message.indexOf(value, at + name.length + 1, 'latin1')
    return [message.subarray(at, at + name.length), message.subarray(valueAt, valueAt + value.length)]
  })
  const lines = names.map((name, i) => `${name}:${values[i]}`)
  const pieces = (at: number): Buffer[] => views.map((view, i) => (i === at ? Buffer.concat([view]) : view))
  for (const raw of [views, ...views.map((_, at) => pieces(at)), views.map(view => Buffer.from(view))]) {
    const read = FieldSection.ofBytes(raw)
    t.same(read.list, section(...lines).list)
    t.equal(read.value(FIELD.connection), 'close, x')
    t.same(read.connectionOptions, ['close', 'x'])
  }
  t.same(FieldSection.ofBytes([]).list, [])
  const high = FieldSection.ofBytes([Buffer.from('X'), Buffer.from('\xff\t', 'latin1')])
  t.same(high.list, ['X', '\xff'])
  for (const [name, value] of [
    ['X Y', 'a'],
    ['X', 'a\0'],
  ] as const) {
    t.throws(() => FieldSection.ofBytes([Buffer.from(name), Buffer.from(value)]), {
      message: /./,
      status: 400,
    })
  }
})

t.test(
  'one test finds whether any of several fields is present, and no two share a bit (RFC 9110 §5)',
  async t => {
    const names = Object.keys(FIELD) as (keyof typeof FIELD)[]
    t.equal(new Set(Object.values(FIELD)).size, names.length)
    for (const name of names) {
      const fields = FieldSection.of(['X', '1', name, '2'])
      t.ok(FIELD[name] > 0 && FIELD[name] <= 31, name)
      t.ok(fields.hasAny(fieldSet(...names)), name)
      t.ok(fields.hasAny(fieldSet(name)), name)
      t.notOk(fields.hasAny(fieldSet(...names.filter(other => other !== name))), name)
    }
    t.notOk(FieldSection.of(['X', '1']).hasAny(fieldSet(...names)))
  },
)
