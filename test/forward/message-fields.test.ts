import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import {
  interimFields,
  requestFields as requestFieldsOf,
  responseFields,
} from '../../src/forward/message-fields.js'
import type { Fields } from '../../src/http/fields.js'

const date = () => 'now'
const requestFields = (fields: Fields, minor: 0 | 1, pseudonym: string) =>
  requestFieldsOf(FieldSection.of(fields), minor, pseudonym)

t.test('a request loses what is hop-by-hop and gains Via (RFC 9110 §7.6.1, §7.6.3)', async t => {
  const fields = ['Host', 'h', 'A', '1', 'Connection', 'x-b', 'X-B', '2', 'TE', 'trailers', 'a', '3']
  t.same(requestFields(fields, 1, 'p'), ['A', '1', 'a', '3', 'Via', '1.1 p'])
  t.same(requestFields([], 0, 'p'), ['Via', '1.0 p'])
})

t.test(
  'what is written anew is left out: Host, Content-Length, Expect (RFC 9110 §7.2, §8.6, §10.1.1)',
  async t => {
    const fields = [
      'host',
      'h',
      'CONTENT-LENGTH',
      '5',
      'Expect',
      '100-continue',
      'Transfer-Encoding',
      'chunked',
    ]
    t.same(requestFields(fields, 1, 'p'), ['Via', '1.1 p'])
    t.same(responseFields(FieldSection.of([...fields, 'Date', 'x']), 1, 'p', date), [
      ...['host', 'h', 'Expect', '100-continue', 'Date', 'x', 'Via', '1.1 p'],
    ])
  },
)

t.test('Via comes last, whatever Via there is (RFC 9110 §7.6.3)', async t => {
  t.same(requestFields(['Via', '1.0 a', 'X', 'y'], 1, 'p'), ['Via', '1.0 a', 'X', 'y', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['Via', '1.0 a', 'Date', 'x']), 0, 'p', date), [
    ...['Via', '1.0 a', 'Date', 'x', 'Via', '1.0 p'],
  ])
})

t.test('Date is added where there is none (RFC 9110 §6.6.1)', async t => {
  t.same(responseFields(FieldSection.of(['A', '1']), 1, 'p', date), ['A', '1', 'Date', 'now', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['dAtE', 'x']), 1, 'p', date), ['dAtE', 'x', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['Connection', 'date', 'Date', 'x']), 1, 'p', date), [
    'Date',
    'x',
    'Via',
    '1.1 p',
  ])
})

t.test('an interim response gains Via alone (RFC 9110 §7.6.3)', async t => {
  t.same(
    interimFields(
      FieldSection.of(['Link', 'a', 'Keep-Alive', '1', 'Content-Length', '5', 'link', 'b']),
      1,
      'p',
    ),
    [...['Link', 'a', 'link', 'b', 'Via', '1.1 p']],
  )
})
