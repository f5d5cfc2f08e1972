import fc from 'fast-check'
import t from 'tap'
import { createHttpDate, parseHttpDate, serializeHttpDate } from '../../src/http/date.js'

/** 2026-11-21 12:00:00 UTC. */
const NOW = Date.UTC(2026, 10, 21, 12)
/** The example of the section. */
const EXAMPLE = 784_111_777_000

/** As ISO text, which is easier to compare by eye. */
function read(text: string, now = NOW): string | undefined {
  const time = parseHttpDate(text, now)
  return time === undefined ? undefined : new Date(time).toISOString().replace('.000Z', '')
}

t.test('writes the date as IMF-fixdate (RFC 9110 §5.6.7)', async t => {
  for (const [now, text] of [
    [EXAMPLE, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    [0, 'Thu, 01 Jan 1970 00:00:00 GMT'],
    [-1, 'Wed, 31 Dec 1969 23:59:59 GMT'],
    [951_782_399_999, 'Mon, 28 Feb 2000 23:59:59 GMT'],
    [951_782_400_000, 'Tue, 29 Feb 2000 00:00:00 GMT'],
  ] as const) {
    t.equal(createHttpDate(() => now)(), text)
    t.equal(serializeHttpDate(now), text)
  }
})

t.test('follows the clock from second to second, also backwards', async t => {
  let now = 999
  const date = createHttpDate(() => now)
  t.equal(date(), 'Thu, 01 Jan 1970 00:00:00 GMT')
  now = 1000
  t.equal(date(), 'Thu, 01 Jan 1970 00:00:01 GMT')
  now = 1999
  t.equal(date(), 'Thu, 01 Jan 1970 00:00:01 GMT')
  now = 0
  t.equal(date(), 'Thu, 01 Jan 1970 00:00:00 GMT')
})

t.test('parses all three forms (RFC 9110 §5.6.7)', async t => {
  for (const text of [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    'Sun Nov 06 08:49:37 1994',
  ]) {
    t.equal(parseHttpDate(text, NOW), EXAMPLE, text)
  }
  for (const [text, date] of [
    ['Thu, 01 Jan 1970 00:00:00 GMT', '1970-01-01T00:00:00'],
    ['Tue, 29 Feb 2000 23:59:59 GMT', '2000-02-29T23:59:59'],
    ['Wed, 01 Jan 0099 00:00:00 GMT', '0099-01-01T00:00:00'],
    ['Sat, 01 Jan 0000 00:00:00 GMT', '0000-01-01T00:00:00'],
    ['Fri, 31 Dec 9999 23:59:59 GMT', '9999-12-31T23:59:59'],
    ['Sat Nov 26 08:49:37 1994', '1994-11-26T08:49:37'],
  ] as const) {
    t.equal(read(text), date, text)
  }
})

t.test('a day or a time that does not exist is not a date (RFC 9110 §5.6.7)', async t => {
  for (const [text, date] of [
    ['31 Jan 2026 00:00:00', '2026-01-31T00:00:00'],
    ['32 Jan 2026 00:00:00', undefined],
    ['00 Jan 2026 00:00:00', undefined],
    ['28 Feb 2026 00:00:00', '2026-02-28T00:00:00'],
    ['29 Feb 2026 00:00:00', undefined],
    ['29 Feb 2024 00:00:00', '2024-02-29T00:00:00'],
    ['29 Feb 1900 00:00:00', undefined],
    ['30 Apr 2026 00:00:00', '2026-04-30T00:00:00'],
    ['31 Apr 2026 00:00:00', undefined],
    ['01 Jan 2026 23:59:59', '2026-01-01T23:59:59'],
    ['01 Jan 2026 24:00:00', undefined],
    ['01 Jan 2026 00:60:00', undefined],
    ['31 Dec 2016 23:59:60', '2017-01-01T00:00:00'],
    ['31 Dec 2016 23:59:61', undefined],
  ] as const) {
    t.equal(read(`Sun, ${text} GMT`), date, text)
  }
  t.equal(read('Sunday, 31-Apr-26 00:00:00 GMT'), undefined)
  t.equal(read('Sun Apr 31 00:00:00 2026'), undefined)
  t.equal(read('Sun Apr  0 00:00:00 2026'), undefined)
})

t.test('a weekday must be valid, and need not fit the date (RFC 9110 §5.6.7)', async t => {
  for (const day of ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']) {
    t.equal(parseHttpDate(`${day}, 06 Nov 1994 08:49:37 GMT`, NOW), EXAMPLE, day)
    t.equal(parseHttpDate(`${day} Nov  6 08:49:37 1994`, NOW), EXAMPLE, day)
  }
  for (const day of ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']) {
    t.equal(parseHttpDate(`${day}, 06-Nov-94 08:49:37 GMT`, NOW), EXAMPLE, day)
  }
})

t.test('texts that resemble the three forms are not dates (RFC 9110 §5.6.7)', async t => {
  for (const text of [
    '',
    '0',
    '784111777',
    '1994-11-06T08:49:37Z',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 06 Nov 1994 08:49:37 +0000',
    'Sun, 06 Nov 1994 08:49:37 gmt',
    'sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 nov 1994 08:49:37 GMT',
    'Sun, 06 NOV 1994 08:49:37 GMT',
    'Son, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Okt 1994 08:49:37 GMT',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun,  6 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 94 08:49:37 GMT',
    'Sun, 06 Nov 11994 08:49:37 GMT',
    'Sun, 06-Nov-1994 08:49:37 GMT',
    'Sun, 06-Nov-94 08:49:37 GMT',
    'Sunday, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-1994 08:49:37 GMT',
    'Sunday, 6-Nov-94 08:49:37 GMT',
    'Sun  06 Nov 1994 08:49:37 GMT',
    'Sun,06 Nov 1994 08:49:37 GMT',
    'Sun, 06  Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 8:49:37 GMT',
    'Sun, 06 Nov 1994 08:49 GMT',
    'Sun, 06 Nov 1994 08:49:37.5 GMT',
    'Sun, 06 Nov 1994 08:49:37 GMT ',
    ' Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37 GMT\n',
    'Sun, 06 Nov 1994 08:49:37 GMT; length=5',
    'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun Nov 6 08:49:37 1994',
    'Sun Nov   6 08:49:37 1994',
    'Sun Nov  6 08:49:37 1994 GMT',
    'Sun Nov  6 08:49:37 94',
    'Sun, Nov  6 08:49:37 1994',
    'Sun, 0\u0666 Nov 1994 08:49:37 GMT',
  ]) {
    t.equal(parseHttpDate(text, NOW), undefined, JSON.stringify(text))
  }
})

t.test('a two-digit year is at most fifty years in the future (RFC 9110 §5.6.7)', async t => {
  const year = (digits: string, now: number) =>
    read(`Sunday, 01-Mar-${digits} 00:00:00 GMT`, now)?.slice(0, 4)
  for (const [digits, in2026, in1994, in2060] of [
    ['94', '1994', '1994', '2094'],
    ['26', '2026', '2026', '2026'],
    ['27', '2027', '2027', '2027'],
    ['43', '2043', '2043', '2043'],
    ['44', '2044', '2044', '2044'],
    ['45', '2045', '1945', '2045'],
    ['75', '2075', '1975', '2075'],
    ['76', '2076', '1976', '2076'],
    ['77', '1977', '1977', '2077'],
    ['00', '2000', '2000', '2100'],
    ['09', '2009', '2009', '2109'],
    ['10', '2010', '2010', '2110'],
    ['11', '2011', '2011', '2011'],
    ['99', '1999', '1999', '2099'],
  ] as const) {
    t.equal(year(digits, NOW), in2026, `${digits} read in 2026`)
    t.equal(year(digits, Date.UTC(1994, 10, 6)), in1994, `${digits} read in 1994`)
    t.equal(year(digits, Date.UTC(2060, 5, 1)), in2060, `${digits} read in 2060`)
  }
  t.equal(read('Sunday, 21-Nov-76 12:00:00 GMT'), '2076-11-21T12:00:00', 'fifty years to the second')
  t.equal(read('Sunday, 21-Nov-76 12:00:01 GMT'), '1976-11-21T12:00:01', 'and one more')
  t.equal(
    read('Sunday, 29-Feb-00 00:00:00 GMT', Date.UTC(2060, 5, 1)),
    '2000-02-29T00:00:00',
    'no leap year 2100',
  )
})

t.test('every second is parsed as it was written, and no text causes an exception', async t => {
  const second = fc.integer({ min: -62_167_219_200, max: 253_402_300_799 })
  fc.assert(
    fc.property(second, fc.nat(999), (seconds, fraction) => {
      t.equal(parseHttpDate(serializeHttpDate(seconds * 1000 + fraction), NOW), seconds * 1000)
    }),
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.stringMatching(/^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/),
      ),
      text => {
        const time = parseHttpDate(text, NOW)
        return time === undefined || Number.isInteger(time)
      },
    ),
  )
})
