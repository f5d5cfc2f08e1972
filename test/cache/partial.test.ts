import fc from 'fast-check'
import t from 'tap'
import {
  combinedHead,
  decidePart,
  joined,
  mayCombine,
  type PartDecision,
  remainderRange,
} from '../../src/cache/partial.js'
import { decideStorable } from '../../src/cache/storable.js'
import type { StoredHead } from '../../src/cache/stored-response.js'
import type { Fields } from '../../src/http/fields.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyStatus } from './arbitrary.js'
import { date, head, NOW, received, request, stored, TIMES } from './messages.js'

const TAGGED = ['ETag', '"a"', 'Last-Modified', date(-3000), 'Date', date()]

function shown(decision: PartDecision): string {
  switch (decision.kind) {
    case 'part':
      return `${decision.first}-${decision.last} ${decision.contentRange}`
    case 'unsatisfiable':
      return `*/${decision.completeLength}`
    case 'whole':
    case 'miss':
      return decision.kind
  }
}

t.test('a range is served from a complete stored response (RFC 9111 §3.3, RFC 9110 §14.2)', async t => {
  for (const [asked, length, wanted] of [
    [[], 11, 'whole'],
    [['Range', 'bytes=0-1'], 11, '0-1 bytes 0-1/11'],
    [['Range', 'bytes=1-'], 11, '1-10 bytes 1-10/11'],
    [['Range', 'bytes=-1'], 11, '10-10 bytes 10-10/11'],
    [['Range', 'bytes=0-99'], 11, '0-10 bytes 0-10/11'],
    [['Range', 'bytes=11-'], 11, '*/11'],
    [['Range', 'bytes=-0'], 11, '*/11'],
    [['Range', 'bytes=0-1,5-6'], 11, 'whole'],
    [['Range', 'bytes=0-1,1-6'], 11, '0-6 bytes 0-6/11'],
    [['Range', 'lines=0-1'], 11, 'whole'],
    [['Range', 'bytes=1-0'], 11, 'whole'],
    [['Range', 'bytes=0-1', 'Range', 'bytes=0-1'], 11, 'whole'],
    [['Range', 'bytes=0-1'], 0, 'whole'],
    // If-Range (RFC 9110 §13.1.5).
    [['Range', 'bytes=0-1', 'If-Range', '"a"'], 11, '0-1 bytes 0-1/11'],
    [['Range', 'bytes=0-1', 'If-Range', 'W/"a"'], 11, 'whole'],
    [['Range', 'bytes=0-1', 'If-Range', '"b"'], 11, 'whole'],
    [['Range', 'bytes=0-1', 'If-Range', date(-3000)], 11, '0-1 bytes 0-1/11'],
    [['Range', 'bytes=0-1', 'If-Range', date(-2999)], 11, 'whole'],
    [['Range', 'bytes=99-', 'If-Range', '"b"'], 11, 'whole'],
  ] as const) {
    t.equal(shown(decidePart(request(asked), stored(TAGGED), length, NOW)), wanted, asked.join(': '))
  }
  const range = ['Range', 'bytes=0-1']
  t.equal(shown(decidePart(request(range, 'HEAD'), stored(TAGGED), 11, NOW)), 'whole')
  for (const status of [203, 404]) {
    t.equal(shown(decidePart(request(range), stored(TAGGED, { status }), 11, NOW)), 'whole', `${status}`)
  }
})

t.test('a range is served from a stored part that contains it (RFC 9111 §3.3)', async t => {
  const part = { status: 206, range: { first: 4, last: 8 } }
  for (const [asked, completeLength, wanted] of [
    [[], 10, 'miss'],
    [['Range', 'bytes=4-8'], 10, '0-4 bytes 4-8/10'],
    [['Range', 'bytes=6-7'], 10, '2-3 bytes 6-7/10'],
    [['Range', 'bytes=3-8'], 10, 'miss'],
    [['Range', 'bytes=4-9'], 10, 'miss'],
    [['Range', 'bytes=4-'], 10, 'miss'],
    [['Range', 'bytes=4-'], 9, '0-4 bytes 4-8/9'],
    [['Range', 'bytes=-2'], 9, '3-4 bytes 7-8/9'],
    [['Range', 'bytes=-2'], 10, 'miss'],
    [['Range', 'bytes=4-99'], 9, '0-4 bytes 4-8/9'],
    [['Range', 'bytes=10-'], 10, '*/10'],
    [['Range', 'bytes=4-5,7-8'], 10, 'miss'],
    [['Range', 'lines=4-5'], 10, 'miss'],
    [['Range', 'bytes=4-8'], undefined, '0-4 bytes 4-8/*'],
    [['Range', 'bytes=5-5'], undefined, '1-1 bytes 5-5/*'],
    [['Range', 'bytes=4-9'], undefined, 'miss'],
    [['Range', 'bytes=4-'], undefined, 'miss'],
    [['Range', 'bytes=-1'], undefined, 'miss'],
    [['Range', 'bytes=8-4'], undefined, 'miss'],
    [['Range', 'bytes=99-'], undefined, 'miss'],
    [['Range', 'bytes=4-5', 'Range', 'bytes=4-5'], undefined, 'miss'],
    [['Range', 'bytes=4-8', 'If-Range', '"a"'], 10, '0-4 bytes 4-8/10'],
    [['Range', 'bytes=4-8', 'If-Range', '"b"'], 10, 'miss'],
  ] as const) {
    const response = stored(TAGGED, completeLength === undefined ? part : { ...part, completeLength })
    t.equal(
      shown(decidePart(request(asked), response, 5, NOW)),
      wanted,
      `${asked.join(': ')} of ${completeLength}`,
    )
  }
  const short = stored(TAGGED, { ...part, completeLength: 10 })
  t.equal(
    shown(decidePart(request(['Range', 'bytes=4-8']), short, 4, NOW)),
    'miss',
    'less is there than was said',
  )
  t.equal(shown(decidePart(request([], 'HEAD'), short, 5, NOW)), 'miss')
})

t.test('ranges that overlap or adjoin are joined (RFC 9111 §3.4)', async t => {
  for (const [a, b, wanted] of [
    [
      [0, 4],
      [5, 9],
      [0, 9],
    ],
    [[0, 4], [6, 9], undefined],
    [
      [0, 4],
      [4, 9],
      [0, 9],
    ],
    [
      [0, 9],
      [2, 3],
      [0, 9],
    ],
    [
      [2, 2],
      [3, 3],
      [2, 3],
    ],
    [[2, 2], [4, 4], undefined],
  ] as const) {
    const [x, y] = [a, b].map(([first, last]) => ({ first, last }))
    if (x === undefined || y === undefined) continue
    const result = wanted && { first: wanted[0], last: wanted[1] }
    t.same(joined(x, y), result, `${a} and ${b}`)
    t.same(joined(y, x), result, `${b} and ${a}`)
  }
})

function part(first: number, last: number, completeLength?: number, fields: Fields = TAGGED): StoredHead {
  const range = { first, last }
  return head(fields, { status: 206, range, ...(completeLength === undefined ? {} : { completeLength }) })
}

t.test('parts are combined if both have the same strong validator (RFC 9111 §3.4)', async t => {
  const dated = ['Last-Modified', date(-60), 'Date', date()]
  const range = ['Content-Range', 'bytes 5-9/10']
  for (const [fields, answer, status, wanted] of [
    [TAGGED, ['ETag', '"a"', ...range], 206, true],
    [TAGGED, ['ETag', '"a"', 'Content-Range', 'bytes 5-9/*'], 206, true],
    [TAGGED, ['ETag', '"a"', 'Content-Range', 'bytes 5-9/11'], 206, false],
    [TAGGED, ['ETag', '"a"', 'Content-Range', 'bytes 5-9'], 206, false],
    [TAGGED, ['ETag', '"a"', ...range, ...range], 206, false],
    [TAGGED, ['ETag', '"a"'], 206, false],
    [TAGGED, ['ETag', '"a"', ...range], 200, false],
    [TAGGED, ['ETag', '"b"', ...range], 206, false],
    [TAGGED, ['ETag', 'W/"a"', ...range], 206, false],
    [TAGGED, ['Last-Modified', date(-3000), ...range], 206, false],
    [['ETag', 'W/"a"'], ['ETag', 'W/"a"', ...range], 206, false],
    [['ETag', 'a'], ['ETag', 'a', ...range], 206, false],
    [dated, [...dated, ...range], 206, true],
    [dated, ['Last-Modified', date(-61), ...range], 206, false],
    [dated, range, 206, false],
    [['Last-Modified', date(-59), 'Date', date()], ['Last-Modified', date(-59), ...range], 206, false],
    [[], range, 206, false],
  ] as const) {
    const may = mayCombine(part(0, 4, 10, fields), received(answer, status))
    t.equal(may, wanted, `${fields}: ${status} ${answer}`)
  }
})

t.test(
  'the fields of the newer part replace older ones, and a complete representation is a 200 (RFC 9111 §3.4)',
  async t => {
    const answer = [
      'Date',
      date(60),
      'ETag',
      '"a"',
      'A',
      '2',
      'Content-Range',
      'bytes 5-9/10',
      'Cache-Control',
      'max-age=9',
    ]
    const decision = decideStorable(request(), received(answer, 206), TIMES)
    const newer = decision.kind === 'store' ? decision.head : part(0, 0)
    const old = part(0, 4, 10, [...TAGGED, 'A', '1', 'B', '1', 'Age', '9'])
    const whole = combinedHead(old, newer)
    t.match(whole, { status: 200, reason: 'OK', requestedAt: NOW })
    t.same(whole?.fields, [
      ...['Last-Modified', date(-3000), 'B', '1'],
      ...['Date', date(60), 'ETag', '"a"', 'A', '2', 'Cache-Control', 'max-age=9'],
    ])
    t.notOk(whole && ('range' in whole || 'completeLength' in whole))
    t.match(combinedHead(part(1, 4, 10), newer), {
      status: 206,
      range: { first: 1, last: 9 },
      completeLength: 10,
    })
    t.match(combinedHead(part(0, 4), part(5, 9)), { status: 206, range: { first: 0, last: 9 } })
    t.match(combinedHead(part(0, 4, 10), part(5, 9)), { status: 200 })
    t.match(combinedHead(part(0, 4, 11), part(5, 9)), { status: 206, completeLength: 11 })
    t.equal(combinedHead(part(0, 3, 10), newer), undefined, 'a gap')
    t.equal(combinedHead(head(TAGGED), newer), undefined, 'no part')
    t.equal(combinedHead(old, head(TAGGED)), undefined, 'joined with no part')
  },
)

t.test(
  'the rest of a stored beginning is requested with If-Range (RFC 9111 §3.4, RFC 9110 §13.1.5)',
  async t => {
    const asked = ['Host', 'h', 'If-None-Match', '"x"', 'A', '1', 'Range', 'bytes=0-1', 'If-Range', '"x"']
    const kept = ['Host', 'h', 'A', '1']
    const dated = ['Last-Modified', date(-60), 'Date', date()]
    for (const [fields, first, wanted] of [
      [TAGGED, 0, [...kept, 'Range', 'bytes=5-', 'If-Range', '"a"']],
      [dated, 0, [...kept, 'Range', 'bytes=5-', 'If-Range', date(-60)]],
      [TAGGED, 1, undefined],
      [['ETag', 'W/"a"'], 0, undefined],
      [[], 0, undefined],
    ] as const) {
      const response = stored(fields, { status: 206, range: { first, last: 4 }, completeLength: 10 })
      t.same(remainderRange(asked, response), wanted, `${fields}`)
    }
    t.equal(remainderRange(asked, stored(TAGGED)), undefined)
  },
)

t.test('without a strong validator no part is combined, and no rest asked for (RFC 9111 §3.4)', async t => {
  const weak = fc.constantFrom<Fields>(
    [],
    ['ETag', 'W/"a"'],
    ['ETag', '"a'],
    ['ETag', '"a"', 'ETag', '"a"'],
    ['ETag', 'W/"a"', 'Last-Modified', date(-3000), 'Date', date()],
    ['Last-Modified', date(-59), 'Date', date()],
    ['Last-Modified', date(1), 'Date', date()],
    ['Last-Modified', 'yesterday', 'Date', date()],
  )
  const place = fc.tuple(fc.nat(20), fc.nat(20), fc.option(fc.nat(50), { nil: undefined }))
  fc.assert(
    fc.property(weak, anyFields, place, (fields, others, at) => {
      const more = partAt(at)
      const answer = [...fields, ...others, 'Content-Range', 'bytes 5-9/10']
      return (
        !mayCombine(head(fields, more), received(answer, 206)) &&
        remainderRange(others, stored(fields, more)) === undefined
      )
    }),
    { numRuns: runs(2000) },
  )
  t.pass()
})

t.test('no bytes result in a range outside the stored content (RFC 9110 §14)', async () => {
  const place = fc.tuple(fc.nat(20), fc.nat(20), fc.option(fc.nat(50), { nil: undefined }))
  fc.assert(
    fc.property(
      anyFields,
      anyFields,
      anyStatus,
      fc.option(place),
      fc.nat(30),
      (fields, asked, status, at, length) => {
        const more = at === null ? { status } : partAt(at)
        const decision = decidePart(request(asked), stored(fields, more), length, NOW)
        mayCombine(head(fields, more), received(asked, 206))
        remainderRange(asked, stored(fields, more))
        return (
          decision.kind !== 'part' ||
          (decision.first >= 0 && decision.first <= decision.last && decision.last < length)
        )
      },
    ),
    { numRuns: runs(3000) },
  )
})

function partAt([first, more, behind]: readonly [number, number, number | undefined]): Partial<StoredHead> {
  const range = { first, last: first + more }
  return behind === undefined
    ? { status: 206, range }
    : { status: 206, range, completeLength: first + more + 1 + behind }
}
