import fc from 'fast-check'
import t from 'tap'
import { StoredResponse } from '../../src/cache/freshness.js'
import {
  afterHead,
  answerFor,
  conditionalRequest,
  freshened,
  notModifiedFields,
} from '../../src/cache/validation.js'
import { matchesVary } from '../../src/cache/vary.js'
import { FieldSection } from '../../src/http/field-section.js'
import { type Fields, fieldValues } from '../../src/http/fields.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyStatus } from './arbitrary.js'
import { date, head, NOW, received, request, stored, TIMES } from './messages.js'

const LATER = { requestedAt: NOW + 60_000, respondedAt: NOW + 61_000 }

t.test(
  "a validation has the fields of the client's request, but our own conditions (RFC 9111 §4.3.1)",
  async t => {
    const conditions = [
      'If-Match',
      '*',
      'If-None-Match',
      '"x"',
      'if-modified-since',
      date(),
      'If-Range',
      '"x"',
    ]
    const others = ['If-Unmodified-Since', date(), 'Range', 'bytes=0-1', 'RANGE', 'bytes=2-3']
    const asked = ['Host', 'h', ...conditions, 'Abc', '123', ...others, 'Cache-Control', 'no-cache']
    const kept = ['Host', 'h', 'Abc', '123', 'Cache-Control', 'no-cache']
    for (const [fields, wanted] of [
      [
        ['ETag', '"a"'],
        ['If-None-Match', '"a"'],
      ],
      [
        ['ETag', 'W/"a"'],
        ['If-None-Match', 'W/"a"'],
      ],
      [
        ['ETag', 'a'],
        ['If-None-Match', 'a'],
      ],
      [
        ['Last-Modified', date(-9)],
        ['If-Modified-Since', date(-9)],
      ],
      [
        ['Last-Modified', date(-9), 'ETag', '"a"'],
        ['If-None-Match', '"a"', 'If-Modified-Since', date(-9)],
      ],
      [
        ['ETag', '*', 'Last-Modified', date(-9)],
        ['If-Modified-Since', date(-9)],
      ],
      [
        ['ETag', '"a"', 'Last-Modified', 'x'],
        ['If-None-Match', '"a"'],
      ],
      [[], []],
    ] as const) {
      t.same(conditionalRequest(asked, stored(fields)), [...kept, ...wanted], fields.join(' | '))
    }
  },
)

t.test('a client whose copy is the stored response gets 304 (RFC 9111 §4.3.2)', async t => {
  const tagged = ['ETag', '"a"', 'Last-Modified', date(-3000), 'Date', date()]
  const dated = ['Last-Modified', date(-3000), 'Date', date()]
  for (const [fields, asked, wanted] of [
    [tagged, ['If-None-Match', '"a"'], 'not-modified'],
    [tagged, ['If-None-Match', 'W/"a"'], 'not-modified'],
    [['ETag', 'W/"a"'], ['If-None-Match', 'W/"a"'], 'not-modified'],
    [['ETag', 'W/"a"'], ['If-None-Match', '"a"'], 'not-modified'],
    [['ETag', '"\xfc"'], ['If-None-Match', '"\xfc"'], 'not-modified'],
    [tagged, ['If-None-Match', '"a", "b", "c"'], 'not-modified'],
    [tagged, ['If-None-Match', '"b", "a", "c"'], 'not-modified'],
    [tagged, ['If-None-Match', '"b"', 'If-None-Match', '"a"'], 'not-modified'],
    [tagged, ['If-None-Match', '*'], 'not-modified'],
    [tagged, ['If-None-Match', '"b"'], 'whole'],
    [tagged, ['If-None-Match', 'a'], 'whole'],
    [dated, ['If-None-Match', '"a"'], 'whole'],
    // If-None-Match takes precedence over If-Modified-Since.
    [tagged, ['If-None-Match', '"a"', 'If-Modified-Since', date(-9000)], 'not-modified'],
    [tagged, ['If-None-Match', '"b"', 'If-Modified-Since', date()], 'whole'],
    [dated, ['If-Modified-Since', date(-3000)], 'not-modified'],
    [dated, ['If-Modified-Since', date(-2999)], 'not-modified'],
    [dated, ['If-Modified-Since', date(-3001)], 'whole'],
    [dated, ['If-Modified-Since', 'Sunday, 01-Mar-26 11:10:00 GMT'], 'not-modified'],
    [dated, ['If-Modified-Since', 'x'], 'whole'],
    // Without Last-Modified, If-Modified-Since is compared with Date.
    [['Date', date()], ['If-Modified-Since', date()], 'not-modified'],
    [['Date', date()], ['If-Modified-Since', date(-1)], 'whole'],
    [tagged, [], 'whole'],
    [tagged, ['Range', 'bytes=0-1'], 'whole'],
  ] as const) {
    t.equal(answerFor(request(asked), stored(fields), NOW), wanted, `${fields}: ${asked}`)
    t.equal(answerFor(request(asked, 'HEAD'), stored(fields), NOW), wanted, `HEAD ${fields}: ${asked}`)
  }
  for (const status of [199, 300, 301, 404, 500]) {
    t.equal(answerFor(request(['If-None-Match', '*']), stored(tagged, { status }), NOW), 'whole', `${status}`)
  }
  t.equal(answerFor(request(['If-None-Match', '*']), stored(tagged, { status: 206 }), NOW), 'not-modified')
})

t.test('a 304 updates fields, except those that describe the content (RFC 9111 §3.2, §4.3.4)', async t => {
  const old = head(['Test', 'a', 'X-Test', 'a', 'ETag', '"e"', 'Cache-Control', 'max-age=2', 'Date', date()])
  const dates = ['Date', date(61)]
  const result = freshened(old, received(['Test', 'b', ...dates, 'ETag', '"e"'], 304), LATER)
  t.same(result, {
    ...old,
    ...LATER,
    fields: ['X-Test', 'a', 'ETag', '"e"', 'Cache-Control', 'max-age=2', 'Test', 'b', ...dates],
  })
  const stays = ['Content-Encoding', 'Content-MD5', 'Content-Range', 'ETag']
  const changes = [
    'Content-Type',
    'Content-Location',
    'Content-Foo',
    'Cache-Control',
    'Expires',
    'Set-Cookie',
  ]
  for (const name of [...stays, ...changes]) {
    const before = head([name, '1', 'Last-Modified', date(-99), 'CDN-Cache-Control', 'max-age=60'])
    const after = freshened(before, received([name, '2', 'Last-Modified', date(-99)], 304), LATER)
    t.same(fieldValues(after?.fields ?? [], name.toLowerCase()), [stays.includes(name) ? '1' : '2'], name)
  }
  const lines = freshened(
    head(['A', '1', 'a', '2', 'B', '3', 'ETag', '"e"']),
    received(['a', '4', 'A', '5', 'Connection', 'B', 'B', '6', 'Keep-Alive', 'x', 'Date', date()], 304),
    LATER,
  )
  t.same(lines?.fields, ['B', '3', 'ETag', '"e"', 'a', '4', 'A', '5', 'Date', date()])
})

t.test('a validated response has a new age (RFC 9111 §4.2.3, §4.3.4)', async t => {
  const old = head(['Age', '50', 'Date', date(-9), 'Cache-Control', 'max-age=60', 'ETag', '"e"'])
  for (const [fields, initialAgeMs] of [
    [['Date', date(61)], 1000],
    [[], 1000],
    [['Date', date(51)], 10_000],
    [['Date', date(61), 'Age', '30'], 31_000],
    [['Date', 'x'], 1000],
  ] as const) {
    const response = freshened(old, received(fields, 304), LATER)
    t.equal(response && new StoredResponse(response).initialAgeMs, initialAgeMs, fields.join(' | '))
  }
})

t.test('which stored response a 304 is about (RFC 9111 §4.3.4)', async t => {
  for (const [fields, answer, wanted] of [
    [['ETag', '"a"'], ['ETag', '"a"'], true],
    [['ETag', '"a"'], [], true],
    // Origins that compress send the tag of another variant.
    [['ETag', '"a"'], ['ETag', '"a-gzip"'], true],
    [['ETag', '"a"', 'Last-Modified', date(-9)], ['Last-Modified', date(-8)], true],
    [['Last-Modified', date(-9)], ['Last-Modified', date(-9)], true],
    [['Last-Modified', date(-9)], ['ETag', '"a"'], true],
    [['Last-Modified', date(-9)], [], true],
    [['Last-Modified', date(-9)], ['Last-Modified', date(-8)], false],
    [['Last-Modified', date(-9)], ['Last-Modified', date(-10)], false],
    [['ETag', '*', 'Last-Modified', date(-9)], ['Last-Modified', date(-8)], false],
  ] as const) {
    const result = freshened(head(fields), received(answer, 304), LATER)
    t.equal(result !== undefined, wanted, `${fields}: ${answer}`)
  }
})

t.test('a 304 may forbid what was allowed before (RFC 9111 §5.2.2.4, §5.2.2.5, §5.2.2.7)', async t => {
  const old = head(['ETag', '"a"', 'Cache-Control', 'max-age=60', 'A', '1', 'B', '2'])
  for (const control of ['no-store', 'private', 'no-cache']) {
    const result = freshened(old, received(['Cache-Control', control], 304), LATER)
    t.ok(result && new StoredResponse(result).noCache, control)
  }
  const qualified = freshened(
    old,
    received(['Cache-Control', 'private="a", no-cache="x"', 'X', '3'], 304),
    LATER,
  )
  t.same(fieldValues(qualified?.fields ?? [], 'a'), [])
  t.same(fieldValues(qualified?.fields ?? [], 'x'), [])
  t.same(fieldValues(qualified?.fields ?? [], 'b'), ['2'])
})

t.test('a cookie that comes with a validation for one client is not sent to others', async t => {
  for (const [control, wanted] of [
    ['max-age=60', ['a=b']],
    ['public', ['a=b']],
    ['no-cache', []],
    ['x', []],
  ] as const) {
    const old = head(['ETag', '"a"', 'Cache-Control', control])
    const answer = ['Set-Cookie', 'a=b', 'ETag', '"a"']
    const validated = freshened(old, received(answer, 304), LATER)
    t.same(fieldValues(validated?.fields ?? [], 'set-cookie'), wanted, control)
    const updated = afterHead(old, received(answer), LATER, 5)
    t.same(updated !== 'invalid' && fieldValues(updated.fields, 'set-cookie'), wanted, control)
  }
})

t.test('after a 304 with another Vary, the response is selected by its fields (RFC 9111 §4.1)', async t => {
  const asked = FieldSection.of(['Foo', '1', 'Bar', '2'])
  const old = head(['ETag', '"a"', 'Vary', 'Foo'], {}, asked.list)
  for (const [vary, request, wanted] of [
    [undefined, undefined, true],
    ['foo', undefined, true],
    ['foo', asked, true],
    ['Foo, Bar', asked, true],
    ['Foo, Bar', undefined, false],
    ['*', asked, false],
  ] as const) {
    const answer = received(vary === undefined ? [] : ['Vary', vary], 304)
    const result = freshened(old, answer, LATER, request)
    t.equal(result && matchesVary(new StoredResponse(result), asked), wanted, String(vary))
  }
  const other = freshened(old, received(['Vary', 'Bar'], 304), LATER, asked)
  t.notOk(other && matchesVary(new StoredResponse(other), FieldSection.of(['Foo', '1'])))
})

t.test('4.4 a response to HEAD freshens the fields of the stored GET (RFC 9111 §4.3.5)', async t => {
  const old = head(['ETag', '"a"', 'Last-Modified', date(-9), 'A', '1', 'B', '1', 'Date', date()])
  const answer = [
    'A',
    '2',
    'Cache-Control',
    'max-age=1000',
    'Content-Length',
    '5',
    'ETag',
    '"a"',
    'Date',
    date(61),
  ]
  t.same(afterHead(old, received(answer), LATER, 5), {
    ...old,
    ...LATER,
    fields: [
      ...['ETag', '"a"', 'Last-Modified', date(-9), 'B', '1'],
      ...['A', '2', 'Cache-Control', 'max-age=1000', 'Date', date(61)],
    ],
  })
  for (const status of [304, 404, 410, 500, 503]) {
    t.equal(afterHead(old, received(answer, status), LATER, 5), old, `${status} says nothing about it`)
  }
  const missing = head(['ETag', '"a"'], { status: 404 })
  t.equal(afterHead(missing, received(answer), LATER, 5), missing, 'what is stored is no 200')
})

t.test(
  '4.4 another Content-Length, ETag or Last-Modified makes the stored GET invalid (RFC 9111 §4.3.5)',
  async t => {
    const all = ['ETag', '"a"', 'Last-Modified', date(-9), 'Content-Length', '5']
    const part = { status: 206, range: { first: 0, last: 1 } }
    for (const [fields, more, answer, length, wanted] of [
      [all, {}, all, 5, 'updated'],
      [all, {}, [], 5, 'updated'],
      [all, {}, ['Content-Length', '6'], 5, 'invalid'],
      [all, {}, ['Content-Length', '4'], 5, 'invalid'],
      [all, {}, ['ETag', '"b"'], 5, 'invalid'],
      [all, {}, ['ETag', 'W/"a"'], 5, 'invalid'],
      [all, {}, ['Last-Modified', date(-8)], 5, 'invalid'],
      [[], {}, ['ETag', '"a"'], 5, 'invalid'],
      [[], {}, ['Last-Modified', date(-9)], 5, 'invalid'],
      [[], {}, ['Content-Length', '6'], 5, 'invalid'],
      [[], {}, ['Content-Length', '5'], 5, 'updated'],
      [['ETag', '"a"'], { ...part, completeLength: 9 }, ['Content-Length', '9'], 2, 'updated'],
      [['ETag', '"a"'], { ...part, completeLength: 9 }, ['Content-Length', '2'], 2, 'invalid'],
      [['ETag', '"a"'], part, ['Content-Length', '2'], 2, 'updated'],
    ] as const) {
      const result = afterHead(head(fields, more), received(answer), LATER, length)
      t.equal(result === 'invalid' ? 'invalid' : 'updated', wanted, `${fields}: ${answer}`)
    }
  },
)

t.test(
  'a generated 304 has the fields that its client needs to update its copy (RFC 9110 §15.4.5)',
  async t => {
    const guides = [
      'Cache-Control',
      'a',
      'Content-Location',
      'b',
      'Date',
      'c',
      'ETag',
      '"d"',
      'Expires',
      'e',
      'Vary',
      'f',
    ]
    const others = [
      'Set-Cookie',
      'g',
      'Access-Control-Allow-Origin',
      'h',
      'Content-Security-Policy',
      'i',
      'Via',
      'j',
    ]
    const content = [
      'Content-Type',
      '1',
      'Content-Encoding',
      '2',
      'Content-Language',
      '3',
      'content-length',
      '4',
    ]
    const more = ['Content-Range', '5', 'Content-MD5', '6', 'Repr-Digest', '7', 'Last-Modified', '8']
    t.same(notModifiedFields([...guides, ...content, ...others, ...more]), [...guides, ...others])
    t.same(notModifiedFields(['Last-Modified', '8', 'Content-Type', '1']), ['Last-Modified', '8'])
  },
)

t.test(
  'no bytes make a validation fail, and its result can be stored and read again (RFC 9111 §4.3)',
  async () => {
    fc.assert(
      fc.property(anyFields, anyFields, anyFields, anyStatus, (fields, answer, asked, status) => {
        const old = head(fields, { status })
        conditionalRequest(asked, new StoredResponse(old))
        answerFor(request(asked), new StoredResponse(old), NOW)
        notModifiedFields(old.fields)
        const results = [
          freshened(old, received(answer, 304), LATER, FieldSection.of(asked)),
          afterHead(old, received(answer), LATER, 5),
        ]
        return results.every(
          result => result === undefined || result === 'invalid' || keeps(old.fields, result.fields),
        )
      }),
      { numRuns: runs(2000) },
    )
    t.equal(TIMES.respondedAt, NOW)
  },
)

/** Whether the fields that describe the content are the same. */
function keeps(before: Fields, after: Fields): boolean {
  return ['etag', 'content-length', 'content-range'].every(
    name => fieldValues(before, name).join() === fieldValues(after, name).join(),
  )
}
