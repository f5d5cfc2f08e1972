import fc from 'fast-check'
import t from 'tap'
import { createIsoTime, member } from '../../src/observe/event-line.js'

t.test('a member has a comma in front, and is nothing where there is no value', async t => {
  t.equal(member('a', 'x'), ',"a":"x"')
  t.equal(member('a', ''), ',"a":""')
  t.equal(member('a', 0), ',"a":0')
  t.equal(member('a', 1.25), ',"a":1.25')
  t.equal(member('a', undefined), '')
})

t.test('every string comes back from JSON, and the line is printable ASCII', async t => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map(code => String.fromCharCode(code)) }),
  )
  fc.assert(
    fc.property(text, value => {
      const text = member('value', value)
      t.equal(JSON.parse(`{"a":1${text}}`).value, value)
      t.match(text, /^[\x20-\x7e]*$/)
    }),
  )
})

t.test('the time follows the clock to the millisecond', async t => {
  let now = 0
  const time = createIsoTime(() => now)
  t.equal(time(), '1970-01-01T00:00:00.000Z')
  t.equal(time(), '1970-01-01T00:00:00.000Z')
  now = 1
  t.equal(time(), '1970-01-01T00:00:00.001Z')
  now = 0
  t.equal(time(), '1970-01-01T00:00:00.000Z', 'backwards too')
})
