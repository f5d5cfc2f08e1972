import fc from 'fast-check'
import t from 'tap'
import { matchesVary, selectingFields, selectResponse } from '../../src/cache/vary.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import { runs } from '../kit/runs.js'
import { anyFields } from './arbitrary.js'
import { date, head, NOW, received, request, stored, verdict } from './messages.js'
import { StoredResponse as Response } from '../../src/cache/freshness.js'

function matches(vary: string, asked: Fields, now: Fields): boolean {
  return matchesVary(stored(['Vary', vary], {}, asked), FieldSection.of(now))
}

t.test(
  'selecting fields are recorded by name, in order, with null for a missing field (RFC 9111 §4.1)',
  async t => {
    for (const [vary, fields, wanted] of [
      [[], ['Foo', '1'], []],
      [[''], ['Foo', '1'], []],
      [['Foo'], ['fOO', '1'], ['foo', '1']],
      [['foo, Bar'], ['Foo', '1'], ['bar', null, 'foo', '1']],
      [
        ['foo', 'bar,foo'],
        ['Foo', '1', 'Bar', ''],
        ['bar', '', 'foo', '1'],
      ],
    ] as const) {
      t.same(selectingFields(FieldSection.of(fields), vary), wanted)
    }
  },
)

t.test('a response matches requests with the same fields as its own request (RFC 9111 §4.1)', async t => {
  for (const [vary, asked, now, wanted] of [
    ['Foo', ['Foo', '1'], ['Foo', '1'], true],
    ['Foo', ['Foo', '1'], ['Foo', '2'], false],
    ['Foo', [], ['Foo', '1'], false],
    ['Foo', ['Foo', '1'], [], false],
    ['Foo', [], [], true],
    ['Foo', ['Foo', ''], [], false],
    ['Foo', ['Foo', ''], ['Foo', ''], true],
    ['Foo', ['Foo', '1', 'Other', '2'], ['Foo', '1', 'Other', '3'], true],
    ['Foo, Bar', ['Foo', '1', 'Bar', 'abc'], ['Bar', 'abc', 'Foo', '1'], true],
    ['Foo, Bar', ['Foo', '1', 'Bar', 'abc'], ['Foo', '1', 'Bar', 'abcd'], false],
    ['Foo, Bar', ['Foo', '1'], [], false],
    ['Foo, Bar, Baz', ['Foo', '1', 'Baz', '789'], ['Foo', '1', 'Baz', '789'], true],
    // Lines are combined, and white space around commas does not matter.
    ['Foo', ['Foo', '1, 2'], ['Foo', '1', 'Foo', '2'], true],
    ['Foo', ['Foo', '1,2'], ['Foo', ' 1 ,\t2 '], true],
    ['Foo', ['Foo', '1, 2'], ['Foo', '2, 1'], false],
    ['Foo', ['Foo', '1, 2'], ['Foo', '12'], false],
    ['Foo', ['Foo', 'a'], ['Foo', 'A'], false],
    ['Foo', ['Foo', 'a b'], ['Foo', 'a  b'], false],
    ['Foo', ['Foo', '"a, b"'], ['Foo', '"a,b"'], false],
    ['Foo', ['Foo', '"a, b"'], ['Foo', '"a, b"'], true],
  ] as const) {
    t.equal(matches(vary, asked, now), wanted, `${vary}: ${asked} and ${now}`)
  }
})

t.test(
  'case, order, spaces and the spelling of weights do not matter in negotiation (RFC 9110 §12.4.2, §12.5)',
  async t => {
    for (const [name, a, b, wanted] of [
      ['Accept-Language', 'en, de', 'de, en', true],
      ['Accept-Language', 'en, de', 'eN, De', true],
      ['Accept-Language', 'en, de', ' en ,   de', true],
      ['Accept-Language', 'en;q=0.5', 'en ; q=0.50', true],
      ['Accept-Language', 'en;Q=0.5', 'en;q=0.500', true],
      ['Accept-Language', 'en', 'en;q=1.000', true],
      ['Accept-Language', 'en, en', 'en', true],
      ['Accept-Language', 'en,, de', 'en, de', true],
      ['Accept-Language', 'en', 'en;q=0.999', false],
      ['Accept-Language', 'en;q=0.5, de', 'en, de;q=0.5', false],
      ['Accept-Language', 'en, de', 'en', false],
      ['Accept-Language', 'en', 'en-GB', false],
      ['Accept-Language', 'en;q=0', 'en', false],
      // A value that cannot be parsed is compared like any other field.
      ['Accept-Language', 'en;q=2, de', 'de, en;q=2', false],
      ['Accept-Language', 'en;q=1.5', 'en;q=1.50', false],
      ['Accept-Language', 'en;q=2, de', 'en;q=2,de', true],
      ['Accept-Encoding', 'gzip, br;q=0.8', 'br ; q=0.8,GZIP', true],
      ['Accept-Encoding', 'gzip', 'gzip, identity;q=0', false],
      ['Accept-Encoding', '', 'gzip;q=0', false],
      ['Accept-Charset', 'utf-8, x', 'X,UTF-8', true],
      ['Accept', 'text/html, */*;q=0.1', '*/*;q=0.10, Text/HTML', true],
      ['Accept', 'text/html;level=1', 'text/html ; LEVEL=1', true],
      ['Accept', 'text/html;level=1', 'text/html;level=2', false],
      ['Accept', 'text/html;a=B', 'text/html;a=b', false],
      ['Accept', 'text/html;a="B, c", d', 'text/html;a="B,c", d', false],
      ['Accept', 'text/html;level=1;q=0.5', 'text/html;q=0.5', false],
      ['Accept', 'a/b, c/d', 'c/d, a/b', true],
      ['X-Accept', 'a, b', 'b, a', false],
    ] as const) {
      t.equal(matches(name, [name, a], [name, b]), wanted, `${name}: ${a} and ${b}`)
    }
  },
)

t.test('credentials are distinguished without being stored (RFC 9111 §7)', async t => {
  for (const name of ['Authorization', 'Cookie', 'Proxy-Authorization']) {
    const asked = [name, 'secret=1; b=2']
    const selecting = selectingFields(FieldSection.of(asked), [name])
    t.notMatch(JSON.stringify(selecting), 'secret', name)
    t.ok(matches(name, asked, asked), name)
    for (const other of ['secret=1; b=3', 'secret=1;b=2', 'Secret=1; b=2', '']) {
      t.notOk(matches(name, asked, [name, other]), `${name}: ${other}`)
    }
    t.notOk(matches(name, asked, []), name)
  }
})

t.test('an asterisk anywhere in Vary matches no request (RFC 9111 §4.1)', async t => {
  for (const lines of [
    ['*'],
    ['*, *'],
    ['*', '*'],
    [', *'],
    ['', '*'],
    ['*, Foo'],
    ['Foo, *'],
    ['Foo', '*'],
  ]) {
    const response = stored(
      lines.flatMap(line => ['Vary', line]),
      {},
      ['Foo', '1'],
    )
    t.notOk(matchesVary(response, FieldSection.of(['Foo', '1'])), lines.join(' | '))
  }
})

t.test('a Vary with more than 32 names matches no request, like an asterisk', async t => {
  const names = Array.from({ length: 33 }, (_, i) => `X-${i}`)
  const none = FieldSection.of([])
  for (const [lines, wanted] of [
    [names.slice(1), true],
    [names, false],
    [[names.join(',')], false],
    [[...names.slice(1), 'x-1, X-2', 'x-32'], true],
  ] as const) {
    const vary = lines.flatMap(line => ['Vary', line])
    t.equal(matchesVary(stored(vary), none), wanted, `${lines.length} lines`)
    t.equal(verdict(request(), received(['Cache-Control', 'max-age=9', ...vary])) === 'store', wanted)
  }
  const many = Array.from({ length: 5000 }, (_, i) => `x${i}`).join()
  t.same(selectingFields(none, [many]), ['*', null], 'and nothing is recorded for each')
})

t.test('a Vary that names other fields than were recorded matches no request (RFC 9111 §4.1)', async t => {
  const { fields } = head(['Vary', 'Foo'])
  for (const [selecting, wanted] of [
    [['foo', null], true],
    [[], false],
    [['bar', null], false],
    [['bar', null, 'foo', null], false],
  ] as const) {
    t.equal(matchesVary(new Response({ ...head(), fields, selecting }), FieldSection.of([])), wanted)
  }
})

t.test(
  'the most recent match is used, and a part only if there is no complete response (RFC 9111 §4)',
  async t => {
    const none = FieldSection.of([])
    const old = stored(['Date', date(-9)])
    const recent = stored(['Date', date(-1)])
    const received = stored(['Date', date(-1)], { respondedAt: NOW + 1 })
    const part = stored(['Date', date()], { status: 206, range: { first: 0, last: 4 } })
    const other = stored(['Date', date(), 'Vary', 'Foo'], {}, ['Foo', '1'])
    for (const [candidates, wanted] of [
      [[], 'vary-miss'],
      [[other], 'vary-miss'],
      [[old], old],
      [[part], part],
      [[old, recent], recent],
      [[recent, old], recent],
      [[recent, received], received],
      [[received, recent], received],
      [[part, old], old],
      [[old, part], old],
      [[other, old, part], old],
      [[other, part], part],
    ] as const) {
      t.equal(selectResponse(candidates, none), wanted)
    }
  },
)

t.test(
  'a preferred language does not select a response with another Accept-Language (RFC 9111 §4.1)',
  async t => {
    const german = stored(['Vary', 'Accept-Language', 'Content-Language', 'de'], {}, [
      'Accept-Language',
      'en, de',
    ])
    for (const asked of ['de', 'fr;q=0.5, de;q=1.0', 'de, *;q=0.1']) {
      const fields = FieldSection.of(['Accept-Language', asked])
      t.notOk(matchesVary(german, fields), asked)
      t.equal(selectResponse([german], fields), 'vary-miss', asked)
      t.equal(selectResponse([german, german], fields), 'vary-miss', asked)
    }
  },
)

t.test('a request always selects the response to an equal request (RFC 9111 §4.1)', async () => {
  const vary = ['Accept-Language, Vary, x-other', 'Cookie', 'Range']
  fc.assert(
    fc.property(anyFields, anyFields, (asked, other) => {
      const selecting = selectingFields(FieldSection.of(asked), vary)
      const fields = vary.flatMap(line => ['Vary', line])
      const response = new Response({ ...head(), fields, selecting })
      if (!matchesVary(response, FieldSection.of(asked))) return false
      const same = JSON.stringify(selectingFields(FieldSection.of(other), vary)) === JSON.stringify(selecting)
      return matchesVary(response, FieldSection.of(other)) === same
    }),
    { numRuns: runs(2000) },
  )
})

t.test('a list of many members costs no more than its length', async t => {
  const long = 'en;a=b;q=0.5,'.repeat(5000) + ';'.repeat(50000) + ' '.repeat(50000)
  t.notOk(matches('Accept-Language', ['Accept-Language', long], ['Accept-Language', `${long}x`]))
})
