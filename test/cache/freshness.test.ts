import fc from 'fast-check'
import t from 'tap'
import { StoredResponse } from '../../src/cache/freshness.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyStatus } from './arbitrary.js'
import { date, head, NOW, stored, TIMES } from './messages.js'

t.test(
  'the lifetime is s-maxage, max-age, Expires minus Date, or heuristic, in that order (RFC 9111 §4.2.1)',
  async t => {
    const guessable = ['Last-Modified', date(-1000), 'Date', date()]
    for (const [fields, wanted, isExplicit] of [
      [[], 0, false],
      [guessable, 100, false],
      [[...guessable, 'Expires', date(5)], 5, true],
      [[...guessable, 'Expires', date(5), 'Cache-Control', 'max-age=6'], 6, true],
      [[...guessable, 'Expires', date(5), 'Cache-Control', 's-maxage=7, max-age=6'], 7, true],
      [['Cache-Control', 'max-age=7', 'Cache-Control', 's-maxage=6'], 6, true],
      [['Cache-Control', 'max-age=0', 'Expires', date(5)], 0, true],
      [['Cache-Control', 's-maxage=0, max-age=60'], 0, true],
      [['Cache-Control', 's-maxage=x, max-age=60'], 0, true],
      [['Cache-Control', 'max-age=x', 'Expires', date(5)], 0, true],
      [[...guessable, 'Cache-Control', 'max-age=-1'], 0, true],
      [[...guessable, 'Cache-Control', 'public'], 100, false],
      [['Cache-Control', 'max-age=99999999999'], 2147483648, true],
      [['Pragma', 'no-cache', 'Cache-Control', 'max-age=6'], 6, true],
    ] as const) {
      const response = stored(fields)
      t.equal(response.lifetimeMs, wanted * 1000, fields.join(' | '))
      t.equal(response.isExplicit, isExplicit, fields.join(' | '))
    }
  },
)

t.test('an Expires that is not a date is in the past (RFC 9111 §5.3)', async t => {
  for (const [value, wanted] of [
    [date(10), 10],
    [date(1), 1],
    [date(0), 0],
    [date(-10), 0],
    ['Sunday, 01-Mar-26 12:00:10 GMT', 10],
    ['Sun Mar  1 12:00:10 2026', 10],
    ['0', 0],
    ['-1', 0],
    ['', 0],
    ['never', 0],
    ['Sun, 01 Mar 2026 12:00:10', 0],
    ['Sun, 01 Mar 2026 12:00:10 UTC', 0],
    ['Sun, 01 Mar 2026 12:00:10 gmt', 10],
    ['SUN, 01 Mar 2026 12:00:10 GMT', 10],
    ['Sun, 01 MAR 2026 12:00:10 GMT', 10],
    ['Sun 01 Mar 2026 12:00:10 GMT', 0],
    ['Sun, 01  Mar 2026 12:00:10 GMT', 0],
    ['Sun, 01-Mar-2026 12:00:10 GMT', 0],
    ['Sun, 01 Mar 2026 12.00.10 GMT', 0],
    ['Sun, 1 Mar 2026 12:00:10 GMT', 0],
    ['Sun, 01 Mar 26 12:00:10 GMT', 0],
    ['Sun, 31 Feb 2026 12:00:10 GMT', 0],
    [`${date(10)}, ${date(10)}`, 0],
  ] as const) {
    t.equal(stored(['Expires', value, 'Date', date()]).lifetimeMs, wanted * 1000, value)
  }
  t.equal(stored(['Expires', date(10), 'Expires', date(10), 'Date', date()]).lifetimeMs, 0, 'two lines')
})

t.test('Expires is relative to Date, or to the time of receipt (RFC 9110 §6.6.1)', async t => {
  for (const [value, wanted] of [
    [date(-10), 20],
    [date(), 10],
    [date(10), 0],
    [date(9), 1],
    ['foo', 10],
    ['', 10],
  ] as const) {
    t.equal(stored(['Expires', date(10), 'Date', value]).lifetimeMs, wanted * 1000, value)
  }
  t.equal(stored(['Expires', date(10)]).lifetimeMs, 10_000)
  const fields = ['Expires', date(10), 'Date', date(-5), 'Date', date(5)]
  t.equal(new StoredResponse({ ...head(), fields }).dateMs, NOW)
})

t.test(
  'what forbids the use of a stale response (RFC 9111 §4.2.4, §5.2.2, §5.2.2.2, §5.2.2.8, §5.2.2.10)',
  async t => {
    for (const [value, mustRevalidate, noCache] of [
      ['max-age=1', false, false],
      ['max-age=1, must-revalidate', true, false],
      ['max-age=1, proxy-revalidate', true, false],
      ['max-age=1, s-maxage=1', true, false],
      ['max-age=1, no-cache', true, true],
      ['max-age=1, no-cache="a"', false, false],
      ['max-age=1, no-cache="vary"', true, true],
      ['max-age=1, private', true, true],
      ['max-age=1, private="a"', false, false],
      ['max-age=1, no-store', true, true],
      ['max-age=1, no-store, must-understand', false, false],
      ['max-age=1, x-must-revalidate', false, false],
    ] as const) {
      const response = stored(['Cache-Control', value])
      t.same([response.mustRevalidate, response.noCache], [mustRevalidate, noCache], value)
    }
  },
)

t.test('how long a stale response may be used (RFC 5861 §3, §4)', async t => {
  const response = stored(['Cache-Control', 'stale-while-revalidate=5, stale-if-error=6'])
  t.same([response.staleWhileRevalidateMs, response.staleIfErrorMs], [5000, 6000])
  for (const value of [
    'a',
    'stale-while-revalidate, stale-if-error',
    'stale-while-revalidate=x, stale-if-error=-1',
  ]) {
    const other = stored(['Cache-Control', value])
    t.same([other.staleWhileRevalidateMs, other.staleIfErrorMs], [0, 0], value)
  }
})

t.test('which ETag can be sent in If-None-Match, and which is strong (RFC 9110 §8.8.3)', async t => {
  for (const [values, text, opaque] of [
    [['"a"'], '"a"', 'a'],
    [['W/"a"'], 'W/"a"', 'a'],
    [['"a\xfc"'], '"a\xfc"', 'a\xfc'],
    [['""'], '""', ''],
    [['a'], 'a', undefined],
    [['**'], '**', undefined],
    [['*'], undefined, undefined],
    [['a,b'], undefined, undefined],
    [['"a'], undefined, undefined],
    [['w/"a"'], undefined, undefined],
    [['a b'], undefined, undefined],
    [[''], undefined, undefined],
    [['"a"', '"a"'], undefined, undefined],
    [['"a", "b"'], undefined, undefined],
  ] as const) {
    const response = stored(values.flatMap(value => ['ETag', value]))
    t.equal(response.etagText, text, values.join(' | '))
    t.equal(response.etag?.opaque, opaque, values.join(' | '))
    t.equal(response.isValidatable, text !== undefined, values.join(' | '))
  }
})

t.test(
  'a strong validator is an ETag that is not weak, or a date long enough ago (RFC 9110 §8.8.1, §8.8.2.2)',
  async t => {
    for (const [fields, wanted] of [
      [['ETag', '"a"'], '"a"'],
      [['ETag', 'W/"a"', 'Last-Modified', date(-9000)], undefined],
      [['ETag', 'a', 'Last-Modified', date(-9000)], undefined],
      [['Last-Modified', date(-60)], date(-60)],
      [['Last-Modified', date(-59)], undefined],
      [['Last-Modified', 'x'], undefined],
      [[], undefined],
    ] as const) {
      t.equal(stored(['Date', date(), ...fields]).strongValidator, wanted, fields.join(' | '))
    }
  },
)

t.test('a received Age is not sent to clients (RFC 9111 §5.1)', async t => {
  const fields = ['A', '1', 'AGE', '5', 'Date', date(), 'age', '6', 'a', '2']
  t.same(new StoredResponse({ ...head(), fields }).clientFields, ['A', '1', 'Date', date(), 'a', '2'])
  t.equal(new StoredResponse({ ...head(), fields }).lines, `A: 1\r\nDate: ${date()}\r\na: 2\r\n`)
  const own = new StoredResponse({ ...head(), fields: ['A', '1', 'Content-Length', '5', 'B', ''] })
  t.equal(own.lines, 'A: 1\r\nB: \r\n', 'nor does what a writer makes itself')
  t.same(own.head.fields, ['A', '1', 'Content-Length', '5', 'B', ''])
})

t.test('a response that was read from a store equals the one that was written (RFC 9111 §2)', async () => {
  fc.assert(
    fc.property(anyFields, anyStatus, (fields, status) => {
      const response = stored(fields, { status })
      const again = new StoredResponse(JSON.parse(JSON.stringify(response.head)))
      return again.lifetimeMs === response.lifetimeMs && again.isSelectable === response.isSelectable
    }),
    { numRuns: runs(1000) },
  )
})

t.test('no bytes make parsing fail, and all numbers are valid (RFC 9111 §4.2.1)', async () => {
  fc.assert(
    fc.property(anyFields, anyStatus, fc.array(fc.option(fc.string())), (fields, status, selecting) => {
      const response = new StoredResponse({ ...head(), fields, status, selecting, ...TIMES })
      return response.lifetimeMs >= 0 && response.initialAgeMs >= 0 && Number.isFinite(response.lifetimeMs)
    }),
    { numRuns: runs(2000) },
  )
})
