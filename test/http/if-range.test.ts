import fc from 'fast-check'
import t from 'tap'
import type { Validators } from '../../src/http/conditional.js'
import { serializeHttpDate } from '../../src/http/date.js'
import { rangeApplies } from '../../src/http/if-range.js'

const NOW = Date.UTC(2026, 10, 21, 12)
/** Not a whole second, like most file times. */
const MODIFIED = Date.UTC(2026, 10, 1) + 567
const SECOND = 1000

const CURRENT: Validators = { etag: { weak: false, opaque: 'a' }, lastModifiedMs: MODIFIED }
const WEAK: Validators = { etag: { weak: true, opaque: 'a' }, lastModifiedMs: MODIFIED }
const BARE: Validators = { etag: undefined, lastModifiedMs: undefined }

const AT = serializeHttpDate(MODIFIED)
const BEFORE = serializeHttpDate(MODIFIED - SECOND)
const AFTER = serializeHttpDate(MODIFIED + SECOND)
const FUTURE = serializeHttpDate(NOW + 365 * 86_400_000)

t.test('Range applies without If-Range, and with the same entity tag (RFC 9110 §13.1.5)', async t => {
  t.equal(rangeApplies([], CURRENT, NOW), true)
  t.equal(rangeApplies(['If-Match', '"b"'], BARE, NOW), true)
  for (const [value, current, applies] of [
    ['"a"', CURRENT, true],
    ['"b"', CURRENT, false],
    ['W/"a"', CURRENT, false],
    ['"a"', WEAK, false],
    ['W/"a"', WEAK, false],
    ['"a"', BARE, false],
    ['"a", "b"', CURRENT, false],
    ['*', CURRENT, false],
    ['a', CURRENT, false],
    ['', CURRENT, false],
  ] as const) {
    t.equal(rangeApplies(['If-Range', value], current, NOW), applies, value)
  }
  t.equal(rangeApplies(['If-Range', '"a"', 'if-range', '"a"'], CURRENT, NOW), false, 'given twice')
})

t.test('Range applies with exactly the date of the last modification (RFC 9110 §13.1.5)', async t => {
  for (const [value, applies] of [
    [AT, true],
    [BEFORE, false],
    [AFTER, false],
    [FUTURE, false],
    ['Sunday, 01-Nov-26 00:00:00 GMT', false],
    [AT.toLowerCase(), false],
    [`${AT} `, false],
  ] as const) {
    t.equal(rangeApplies(['If-Range', value], CURRENT, NOW), applies, value)
    t.equal(rangeApplies(['If-Range', value], BARE, NOW), false, 'nothing to compare with')
  }
})

t.test('a date is strong once its second has passed (RFC 9110 §8.8.2.2)', async t => {
  const second = Math.floor(MODIFIED / SECOND) * SECOND
  for (const [now, applies] of [
    [second + 2 * SECOND, true],
    [second + SECOND, true],
    [second + SECOND - 1, false],
    [MODIFIED, false],
    [second, false],
    [second - SECOND, false],
  ] as const) {
    t.equal(rangeApplies(['If-Range', AT], CURRENT, now), applies, `${now - second} ms`)
    t.equal(rangeApplies(['If-Range', '"a"'], CURRENT, now), true, 'the entity tag always is')
  }
})

t.test('with any other text Range does not apply (RFC 9110 §13.1.5)', async () => {
  fc.assert(
    fc.property(
      fc.string(),
      text => text === '"a"' || text === AT || !rangeApplies(['If-Range', text], CURRENT, NOW),
    ),
  )
})
