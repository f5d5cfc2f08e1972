import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import { Via } from '../../src/http/via.js'

const isIn = (fields: Fields, pseudonym: string) => new Via(pseudonym).isIn(FieldSection.of(fields))

t.test('the member contains the received version and the pseudonym (RFC 9110 §7.6.3)', async t => {
  t.same(new Via('sluice-1a').members, ['1.0 sluice-1a', '1.1 sluice-1a'])
})

t.test('finds its own pseudonym in any member of any line, and no similar one (RFC 9110 §7.6.3)', async t => {
  for (const [value, found] of [
    ['1.1 me', true],
    ['1.0 a, HTTP/1.1\tme', true],
    ['1.1  me (a comment)', true],
    ['1.1 me2', false],
    ['1.1 a me', false],
    ['me', false],
    ['me 1.1', false],
    ['1.1 ME', false],
    ['', false],
  ] as const) {
    t.equal(isIn(['Via', '1.1 x', 'via', value], 'me'), found, value)
  }
  t.notOk(isIn(['Forwarded', '1.1 me'], 'me'))
  t.ok(isIn(['Via', new Via('me').members[1]], 'me'))
})
