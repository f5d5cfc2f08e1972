import fc from 'fast-check'
import t from 'tap'
import { createIsoTime, eventFields, eventLine } from '../../src/observe/event-line.js'

t.test('adds fields in order and leaves undefined ones out', async t => {
  t.equal(eventLine('{"a":1', { b: 'x', c: undefined, d: 0, e: '' }), '{"a":1,"b":"x","d":0,"e":""}\n')
  t.equal(eventFields('{"a":1', { b: 2 }), '{"a":1,"b":2')
  t.equal(eventLine('{"a":1', {}), '{"a":1}\n')
})

t.test('every string comes back from JSON, and the line is printable ASCII', async t => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map(code => String.fromCharCode(code)) }),
  )
  fc.assert(
    fc.property(text, value => {
      const line = eventLine('{"a":1', { value })
      t.equal(JSON.parse(line).value, value)
      t.match(line, /^[\x20-\x7e]*\n$/)
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
