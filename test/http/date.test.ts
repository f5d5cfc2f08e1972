import t from 'tap'
import { createHttpDate } from '../../src/http/date.js'

t.test('writes the date as IMF-fixdate (RFC 9110 §5.6.7)', async t => {
  for (const [now, text] of [
    [784_111_777_000, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    [0, 'Thu, 01 Jan 1970 00:00:00 GMT'],
    [951_782_399_999, 'Mon, 28 Feb 2000 23:59:59 GMT'],
    [951_782_400_000, 'Tue, 29 Feb 2000 00:00:00 GMT'],
  ] as const) {
    t.equal(createHttpDate(() => now)(), text)
  }
})

t.test('follows the clock from second to second, backwards too', async t => {
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
