import t from 'tap'
import {
  fieldValue,
  fieldValues,
  hasField,
  splitList,
  trimOws,
  withoutFields,
} from '../../src/http/fields.js'

const FIELDS = ['Host', 'a', 'X-A', '1', 'x-a', '', 'HOST', 'b']

t.test('names are compared without regard to case (RFC 9110 §5.1)', async t => {
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
    t.same(fieldValues([name, 'a', 'x', 'b'], lower), ['a'])
    t.equal(fieldValue(['x', 'b', name, 'a'], lower), 'a')
    t.ok(hasField([name, ''], lower))
    t.notOk(hasField([`${name}x`, 'a'], lower))
  }
})

t.test('finds values by name, in order, with repetitions (RFC 9110 §5)', async t => {
  t.same(fieldValues(FIELDS, 'host'), ['a', 'b'])
  t.same(fieldValues(FIELDS, 'x-a'), ['1', ''])
  t.same(fieldValues(FIELDS, 'a'), [], 'a value is not a name')
  t.equal(fieldValue(FIELDS, 'host'), 'a')
  t.equal(fieldValue(FIELDS, 'none'), undefined)
  t.equal(fieldValue(['a', ''], 'a'), '')
})

t.test('a list is split into its members, without empty ones (RFC 9110 §5.6.1)', async t => {
  t.same(splitList('x, y ,,\tz'), ['x', 'y', 'z'])
  t.same(splitList(' , '), [])
  t.same(splitList(''), [])
  t.same(splitList('x\xa0,\x0by'), ['x\xa0', '\x0by'])
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

t.test('all lines of the named fields are removed, whatever their case (RFC 9110 §5.1)', async t => {
  t.same(withoutFields(FIELDS, new Set(['x-a'])), ['Host', 'a', 'HOST', 'b'])
  t.same(withoutFields(FIELDS, new Set(['host', 'x-a'])), [])
  t.same(withoutFields(FIELDS, new Set(['a', 'b'])), FIELDS, 'values are no names')
  t.same(withoutFields([...FIELDS, 'Odd'], new Set()), FIELDS)
})
