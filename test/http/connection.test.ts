import t from 'tap'
import {
  endToEndFields as endToEndFieldsOf,
  isPersistent as isPersistentIn,
} from '../../src/http/connection.js'
import { FieldSection, type FieldSet, fieldSet } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'

const connectionOptions = (fields: Fields) => FieldSection.of(fields).connectionOptions
const endToEndFields = (fields: Fields, drop?: FieldSet) => endToEndFieldsOf(FieldSection.of(fields), drop)
const wantsPersistence = (fields: Fields, minor: 0 | 1) =>
  isPersistentIn(FieldSection.of(fields), minor, 'client')
const isPersistent = (fields: Fields, minor: 0 | 1) =>
  isPersistentIn(FieldSection.of(fields), minor, 'server')

t.test('reads the options of all Connection lines in any case (RFC 9110 §7.6.1)', async t => {
  t.same(connectionOptions([]), [])
  t.same(connectionOptions(['Connection', '']), [])
  t.same(connectionOptions(['CONNECTION', 'Close, X-A ,,', 'a', 'b', 'connection', '\tUpgrade']), [
    'close',
    'x-a',
    'upgrade',
  ])
})

t.test('strips the fields that Connection names (RFC 9110 §7.6.1)', async t => {
  const fields = [
    'A',
    '1',
    'Connection',
    'x-B, a',
    'X-b',
    '2',
    'C',
    '3',
    'a',
    '4',
    'connection',
    'D',
    'd',
    '5',
    'E',
    '',
  ]
  t.same(endToEndFields(fields), ['C', '3', 'E', ''])
})

t.test('strips fields that are hop-by-hop by definition, named or not (RFC 9110 §7.6.1)', async t => {
  for (const name of [
    'Connection',
    'PROXY-CONNECTION',
    'keep-alive',
    'TE',
    'Transfer-Encoding',
    'Upgrade',
    'HTTP2-Settings',
    'Proxy-Authorization',
    'Proxy-Authenticate',
    'Proxy-Authentication-Info',
  ]) {
    t.same(endToEndFields(['a', '1', name, 'x', 'b', '2']), ['a', '1', 'b', '2'], name)
  }
})

t.test('credentials for this proxy are never forwarded (RFC 9110 §11.7)', async t => {
  const fields = ['Proxy-Authorization', 'Basic eA==', 'proxy-authorization', 'y', 'Authorization', 'z']
  t.same(endToEndFields(fields), ['Authorization', 'z'])
})

t.test('the settings of an h2c upgrade are not forwarded (RFC 7540 §3.2.1)', async t => {
  const fields = [
    'Upgrade',
    'h2c',
    'HTTP2-Settings',
    'AAMAAABk',
    'Connection',
    'Upgrade, HTTP2-Settings',
    'Host',
    'a',
  ]
  t.same(endToEndFields(fields), ['Host', 'a'])
})

t.test(
  'keeps fields that the meaning of the message depends on, though Connection names them (RFC 9110 §7.6.1)',
  async t => {
    for (const name of [
      'Host',
      'Content-Length',
      'Content-Type',
      'Content-Encoding',
      'Content-Range',
      'Authorization',
      'Cookie',
      'Set-Cookie',
      'Cache-Control',
      'Date',
      'Via',
      'Forwarded',
      'Max-Forwards',
    ]) {
      t.same(endToEndFields(['Connection', `close, ${name}`, name, 'v']), [name, 'v'])
    }
  },
)

t.test('keeps order, case and repetitions of the others, and drops the given fields', async t => {
  const fields = ['via', '1', 'A', '2', 'Via', '3', 'a', '4', 'Host', 'x']
  t.same(endToEndFields(fields), fields)
  t.same(endToEndFields(fields, fieldSet('via', 'host')), ['A', '2', 'a', '4'])
})

t.test('HTTP/1.1 persists unless it says close, HTTP/1.0 only with keep-alive (RFC 9112 §9.3)', async t => {
  for (const [fields, one, zero] of [
    [[], true, false],
    [['Connection', 'close'], false, false],
    [['Connection', 'CLOSE'], false, false],
    [['Connection', 'keep-alive'], true, true],
    [['Connection', 'Keep-Alive'], true, true],
    [['Connection', 'keep-alive, close'], false, false],
    [['Connection', 'keep-alive', 'Connection', 'close'], false, false],
    [['Connection', 'x, keep-alive'], true, true],
    [['Connection', 'closed'], true, false],
    [['Keep-Alive', 'timeout=5'], true, false],
    [['Proxy-Connection', 'Keep-Alive'], true, true],
    [['Proxy-Connection', 'close'], true, false],
    [['Proxy-Connection', 'keep-alive', 'Connection', 'close'], false, false],
  ] as const) {
    t.equal(wantsPersistence(fields, 1), one, `${fields} in 1.1`)
    t.equal(wantsPersistence(fields, 0), zero, `${fields} in 1.0`)
    t.equal(isPersistent(fields, 1), one, `${fields} in 1.1`)
    const isOfClients = fields.some((text: string) => text === 'Proxy-Connection')
    t.equal(isPersistent(fields, 0), zero && !isOfClients, `${fields} in 1.0, of a server`)
  }
})

t.test('options and fields are scanned once each, however many there are (RFC 9110 §7.6.1)', async t => {
  const count = 10_000
  const names = Array.from({ length: count }, (_, i) => `x-${i}`)
  const fields = ['Connection', names.join(','), ...names.flatMap(name => [name, '']), 'X-Kept', '']
  let compared = 0
  for (const name of ['includes', 'indexOf', 'some', 'find'] as const) {
    const search: (...args: never[]) => unknown = Array.prototype[name]
    t.intercept(Array.prototype, name, {
      value(this: unknown[], ...args: never[]) {
        compared += this.length
        return search.apply(this, args)
      },
    })
  }
  const kept = endToEndFields(fields)
  const total = compared
  t.same(kept, ['X-Kept', ''])
  t.ok(total <= count, `${total} comparisons`)
})

t.test('many options strip what they name, and nothing else (RFC 9110 §7.6.1)', async t => {
  for (const count of [1, 7, 8, 9, 10, 100]) {
    const names = Array.from({ length: count }, (_, i) => `X-${i}`)
    const fields = [
      'Connection',
      `${names.join(', ')}, host`,
      'Host',
      'h',
      ...names.flatMap(name => [name, '1']),
      'x-0',
      '',
      'X',
      '2',
    ]
    t.same(endToEndFields(fields), ['Host', 'h', 'X', '2'], `${count}`)
  }
})

t.test(
  'fields that Connection names are dropped in addition to the hop-by-hop ones (RFC 9110 §7.6.1)',
  async t => {
    const rest = [
      'X-A',
      '1',
      'x-b',
      '2',
      'Via',
      'v',
      'Content-Length',
      '3',
      'Set-Cookie',
      'a',
      'Set-Cookie',
      'b',
    ]
    const fields = [
      ...['TE', 'trailers', 'Keep-Alive', 'timeout=1', 'Proxy-Authenticate', 'x', 'HTTP2-Settings', 'y'],
      ...['Upgrade', 'z', 'Transfer-Encoding', 'chunked', 'PROXY-CONNECTION', 'q'],
      ...rest,
    ]
    for (const [connection, dropped] of [
      ['X-A, Host, close', ['X-A']],
      ['close', []],
      ['keep-alive', []],
      ['x-b', ['x-b']],
      ['close, Set-Cookie', []],
    ] as const) {
      const kept = (names: readonly string[]) =>
        rest.filter((_, at) => !names.includes(rest[at - (at % 2)] as string))
      const all = ['Connection', connection, ...fields]
      t.same(endToEndFields(all), kept(dropped), connection)
      const fewer = fieldSet('content-length', 'via')
      t.same(endToEndFields(all, fewer), kept([...dropped, 'Via', 'Content-Length']), connection)
    }
  },
)
