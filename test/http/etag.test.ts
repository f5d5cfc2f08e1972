import fc from 'fast-check'
import t from 'tap'
import {
  type EntityTag,
  isStrongMatch,
  isWeakMatch,
  parseEntityTag,
  parseEntityTags,
  serializeEntityTag,
} from '../../src/http/etag.js'

const strong = (opaque: string): EntityTag => ({ weak: false, opaque })
const weak = (opaque: string): EntityTag => ({ weak: true, opaque })

const etagc = fc.integer({ min: 0x21, max: 0xff }).filter(code => code !== 0x22 && code !== 0x7f)
const entityTag: fc.Arbitrary<EntityTag> = fc.record({
  weak: fc.boolean(),
  opaque: fc.array(etagc, { maxLength: 12 }).map(codes => String.fromCharCode(...codes)),
})

t.test('parses and serialises strong and weak tags (RFC 9110 §8.8.3)', async t => {
  for (const [text, tag] of [
    ['"xyzzy"', strong('xyzzy')],
    ['W/"xyzzy"', weak('xyzzy')],
    ['""', strong('')],
    ['W/""', weak('')],
    ['"a,b"', strong('a,b')],
    ['"W/"', strong('W/')],
    ['"\\"', strong('\\')],
    ['"!#~"', strong('!#~')],
    ['"\x80\xff"', strong('\x80\xff')],
    ['"*"', strong('*')],
  ] as const) {
    t.same(parseEntityTag(text), tag, text)
    t.equal(serializeEntityTag(tag), text)
  }
})

t.test('any other text is not an entity tag (RFC 9110 §8.8.3)', async t => {
  for (const text of [
    '',
    '*',
    'xyzzy',
    '"',
    '"xyzzy',
    'xyzzy"',
    "'xyzzy'",
    'w/"xyzzy"',
    'W"xyzzy"',
    'W/xyzzy',
    'W/ "xyzzy"',
    'W\\"xyzzy"',
    'W/W/"xyzzy"',
    ' "xyzzy"',
    '"xyzzy" ',
    '"a b"',
    '"a\tb"',
    '"a"b"',
    '"a\\"b"',
    '"a", "b"',
    '"\0"',
    '"\x7f"',
    '"\u0100"',
    '"a"\n',
  ]) {
    t.equal(parseEntityTag(text), undefined, JSON.stringify(text))
  }
  for (const code of [0x20, 0x22, 0x7f, 0x09, 0x0d, 0x0a, 0, 0x100]) {
    const tag = strong(`a${String.fromCharCode(code)}b`)
    t.throws(() => serializeEntityTag(tag), { name: 'RangeError' }, `0x${code.toString(16)}`)
  }
})

t.test('compares tags as the table of the section does (RFC 9110 §8.8.3.2)', async t => {
  for (const [a, b, isStrong, isWeak] of [
    [weak('1'), weak('1'), false, true],
    [weak('1'), weak('2'), false, false],
    [weak('1'), strong('1'), false, true],
    [strong('1'), weak('1'), false, true],
    [strong('1'), strong('1'), true, true],
    [strong('1'), strong('2'), false, false],
    [strong('a'), strong('A'), false, false],
  ] as const) {
    t.equal(isStrongMatch(a, b), isStrong, `${serializeEntityTag(a)} ${serializeEntityTag(b)} strongly`)
    t.equal(isWeakMatch(a, b), isWeak, `${serializeEntityTag(a)} ${serializeEntityTag(b)} weakly`)
  }
})

t.test('parses * and lists over all lines (RFC 9110 §13.1.1, §13.1.2)', async t => {
  t.equal(parseEntityTags([], 'if-match'), undefined)
  t.equal(parseEntityTags(['If-None-Match', '"a"'], 'if-match'), undefined)
  t.same(parseEntityTags(['If-Match', '*'], 'if-match'), { kind: 'any' })
  for (const [values, tags] of [
    [['"a"'], [strong('a')]],
    [['"a", W/"b" ,\t"c"'], [strong('a'), weak('b'), strong('c')]],
    [['"a","b"'], [strong('a'), strong('b')]],
    [['"a,b"'], [strong('a,b')]],
    [['"a", "a"'], [strong('a'), strong('a')]],
    [['"*"'], [strong('*')]],
    [
      ['"a"', '"b"'],
      [strong('a'), strong('b')],
    ],
    [['', '"b", '], [strong('b')]],
    [[', ,"a",,'], [strong('a')]],
    [[''], []],
    [[','], []],
  ] as const) {
    const fields = values.flatMap(value => ['If-Match', value, 'X', '"x"'])
    t.same(parseEntityTags(fields, 'if-match'), { kind: 'tags', tags }, JSON.stringify(values))
  }
})

t.test('one bad member makes the list malformed (RFC 9110 §13.1.1, §13.1.2)', async t => {
  for (const values of [
    ['a'],
    ['"a'],
    ['"a" "b"'],
    ['"a""b"'],
    ['"a"b'],
    ['"a"; "b"'],
    ['"a", b'],
    ['"a", w/"b"'],
    ['W/'],
    ['W/, "a"'],
    ['"a b"'],
    ['*, "a"'],
    ['"a", *'],
    ['*,'],
    ['* *'],
    ['*', '*'],
    ['"a"', '*'],
    ['"a', 'b"'],
    ['"a"\x0b'],
    ['"a"\xa0'],
  ]) {
    const fields = values.flatMap(value => ['If-None-Match', value])
    t.same(parseEntityTags(fields, 'if-none-match'), { kind: 'malformed' }, JSON.stringify(values))
  }
})

t.test('any list is parsed as it was written, and no text causes an exception', async t => {
  const separator = fc.constantFrom(',', ', ', ' ,', ' ,\t, ')
  fc.assert(
    fc.property(fc.array(entityTag, { maxLength: 8 }), separator, (tags, between) => {
      const text = tags.map(serializeEntityTag).join(between)
      t.same(parseEntityTags(['If-Match', text], 'if-match'), { kind: 'tags', tags })
      for (const tag of tags) t.same(parseEntityTag(serializeEntityTag(tag)), tag)
    }),
  )
  const anyText = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('"', ',', ' ', 'W', '/', '*', 'a', '\\') }),
  )
  fc.assert(
    fc.property(anyText, text => {
      const tag = parseEntityTag(text)
      if (tag !== undefined) t.equal(serializeEntityTag(tag), text)
      const list = parseEntityTags(['If-Match', text], 'if-match')
      if (tag !== undefined) t.same(list, { kind: 'tags', tags: [tag] }, 'one tag is a list of one')
      t.ok(list)
    }),
  )
})
