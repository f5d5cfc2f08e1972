import t from 'tap'
import {
  fieldValue,
  fieldValues,
  listMembers,
  lowerName,
  parseFieldLine,
  trimOws,
} from '../../src/http/fields.js'

const FIELDS = ['Host', 'a', 'X-A', '1', 'x-a', '', 'HOST', 'b']

/** name and value of a field line. */
function parse(line: string): string[] {
  const into: string[] = []
  parseFieldLine(line, into)
  return into
}

t.test('names are compared without case (RFC 9110 §5.1)', async t => {
  for (const [name, lower] of [
    ['Content-Length', 'content-length'],
    ['content-length', 'content-length'],
    ['CONTENT-length', 'content-length'],
    ['ETag', 'etag'],
    ['TE', 'te'],
    ['X-Unknown', 'x-unknown'],
    ['constructor', 'constructor'],
    ['__proto__', '__proto__'],
    ['', ''],
  ] as const) {
    t.equal(lowerName(name), lower)
  }
})

t.test('finds values by name, in order, repeats among them (RFC 9110 §5)', async t => {
  t.same(fieldValues(FIELDS, 'host'), ['a', 'b'])
  t.same(fieldValues(FIELDS, 'x-a'), ['1', ''])
  t.same(fieldValues(FIELDS, 'a'), [], 'a value is not a name')
  t.equal(fieldValue(FIELDS, 'host'), 'a')
  t.equal(fieldValue(FIELDS, 'none'), undefined)
  t.equal(fieldValue(['a', ''], 'a'), '')
})

t.test('joins the lists of all lines and drops empty members (RFC 9110 §5.6.1)', async t => {
  t.same(listMembers(['a', 'x, y ,,\tz', 'b', 'n', 'A', ' , ', 'A', 'w'], 'a'), ['x', 'y', 'z', 'w'])
  t.same(listMembers([], 'a'), [])
  t.same(listMembers(['a', 'x\xa0,\x0by'], 'a'), ['x\xa0', '\x0by'])
})

t.test('optional white space is SP and HTAB, nothing else (RFC 9110 §5.6.3)', async t => {
  for (const [text, trimmed] of [
    ['', ''],
    [' ', ''],
    ['\t \t', ''],
    [' a', 'a'],
    ['a\t', 'a'],
    ['\t a b \t', 'a b'],
    ['a', 'a'],
    ['\xa0a\xa0', '\xa0a\xa0'],
    ['\x0ba\x0c', '\x0ba\x0c'],
    ['\ufeffa\u3000', '\ufeffa\u3000'],
    ['\ra\n', '\ra\n'],
  ] as const) {
    t.equal(trimOws(text), trimmed, JSON.stringify(text))
  }
})

t.test('reads a field line and appends name and value (RFC 9112 §5.1)', async t => {
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
  const into = ['A', '1']
  parseFieldLine('B: 2', into)
  t.same(into, ['A', '1', 'B', '2'])
})

t.test('refuses white space before the colon, and names that are no token (RFC 9112 §5.1)', async t => {
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

t.test('refuses control bytes in a value, at its ends too (RFC 9110 §5.5)', async t => {
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
