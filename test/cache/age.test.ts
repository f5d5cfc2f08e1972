import fc from 'fast-check'
import t from 'tap'
import { currentAgeMs, currentAgeSeconds, initialAgeMs, parseAge } from '../../src/cache/age.js'
import { runs } from '../kit/runs.js'
import { anyValue } from './arbitrary.js'
import { date, NOW, stored } from './messages.js'

t.test('the first member of Age counts, and what is not a number is ignored (RFC 9111 §5.1)', async t => {
  for (const [values, wanted] of [
    [[], 0],
    [['0'], 0],
    [['7200'], 7200],
    [['007'], 7],
    [['2147483648'], 2147483648],
    [['2147483649'], 2147483648],
    [['9'.repeat(400)], 2147483648],
    // The first member counts.
    [['0,7200'], 0],
    [['7200,0'], 7200],
    [['7200 ,\t0'], 7200],
    [['3600, 3600'], 3600],
    [['0', '7200'], 0],
    [['7200', '0'], 7200],
    [['7200, x'], 7200],
    [['7200', 'x'], 7200],
    [[''], 0],
    [['abc'], 0],
    [['-7200'], 0],
    [['+1'], 0],
    [['7200.0'], 0],
    [['1e3'], 0],
    [['7200;foo=bar'], 0],
    [['7200;foo=111'], 0],
    [['7200 0'], 0],
    [['7,'], 7],
    [[',7'], 0],
    [['x, 7'], 0],
    [['"0"'], 0],
  ] as const) {
    t.equal(parseAge(values), wanted, values.join(' | '))
  }
})

t.test('the initial age is the larger of those by Date and by Age (RFC 9111 §4.2.3)', async t => {
  for (const [ageSeconds, dateMs, requestedAt, respondedAt, wanted] of [
    [0, NOW, NOW, NOW, 0],
    [0, NOW - 5000, NOW, NOW, 5000],
    [0, NOW + 5000, NOW, NOW, 0],
    [30, NOW, NOW, NOW, 30000],
    [30, NOW - 31000, NOW, NOW, 31000],
    [31, NOW - 30000, NOW, NOW, 31000],
    [30, NOW, NOW - 250, NOW, 30250],
    [0, NOW, NOW - 250, NOW, 250],
    // The clock was set back during the request.
    [1, NOW, NOW + 9000, NOW, 1000],
    // Date has no fraction of a second.
    [0, NOW, NOW + 999, NOW + 999, 0],
    [0, NOW - 1000, NOW + 999, NOW + 999, 1000],
  ] as const) {
    const times = { requestedAt, respondedAt }
    t.equal(initialAgeMs(ageSeconds, dateMs, times), wanted)
  }
})

t.test('the age grows while the response is stored (RFC 9111 §4.2.3)', async t => {
  const response = stored(['Age', '30', 'Date', date()])
  for (const [after, wanted] of [
    [0, 30000],
    [1, 30001],
    [60000, 90000],
    [-60000, 30000],
  ] as const) {
    t.equal(currentAgeMs(response, NOW + after), wanted, `${after} ms`)
  }
  t.equal(currentAgeMs(stored(['Age', 'x', 'Date', date(-7)]), NOW), 7000, 'by Date alone')
})

t.test(
  'Age has whole seconds, and its maximum represents all larger ages (RFC 9111 §1.2.2, §5.1)',
  async t => {
    for (const [fields, after, wanted] of [
      [['Age', '30'], 0, 30],
      [['Age', '30'], 999, 30],
      [['Age', '30'], 1000, 31],
      [['Age', '2147483647'], 999, 2147483647],
      [['Age', '2147483647'], 1000, 2147483648],
      [['Age', '2147483647'], 2000, 2147483648],
      [['Age', '9'.repeat(99)], 0, 2147483648],
    ] as const) {
      t.equal(currentAgeSeconds(stored(fields), NOW + after), wanted, `${fields} after ${after}`)
    }
  },
)

t.test('no bytes result in an age that is negative, or not a number', async () => {
  fc.assert(
    fc.property(fc.array(anyValue), values => parseAge(values) >= 0),
    { numRuns: runs(2000) },
  )
})
