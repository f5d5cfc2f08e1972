import t from 'tap'
import { expectsContinue as expectsContinueIn } from '../../src/http/expect.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'

const expectsContinue = (fields: Fields, minor: 0 | 1) => expectsContinueIn(FieldSection.of(fields), minor)

t.test('100-continue in any case is the only expectation (RFC 9110 §10.1.1)', async t => {
  t.equal(expectsContinue([], 1), false)
  t.equal(expectsContinue(['Expect', ''], 1), false)
  for (const value of ['100-continue', '100-Continue', '100-continue, 100-CONTINUE', ',100-continue,']) {
    t.equal(expectsContinue(['expect', value], 1), true, value)
  }
  t.equal(expectsContinue(['Expect', '100-continue', 'Expect', '100-continue'], 1), true)
})

t.test('any other expectation is 417 (RFC 9110 §10.1.1)', async t => {
  const wanted = { name: 'ProxyError', status: 417, side: 'client', reason: 'expectation' }
  for (const value of ['x', '100', '100-continues', '100-continue, x', '100-continue;q=1', '200-ok']) {
    t.throws(() => expectsContinue(['Expect', value], 1), wanted, value)
  }
  t.throws(() => expectsContinue(['Expect', '100-continue', 'Expect', 'x'], 1), wanted)
})

t.test('in HTTP/1.0 the field is ignored (RFC 9110 §10.1.1)', async t => {
  t.equal(expectsContinue(['Expect', '100-continue'], 0), false)
  t.equal(expectsContinue(['Expect', 'x'], 0), false)
})
