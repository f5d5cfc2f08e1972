import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import { parseHostField as parseHostFieldIn } from '../../src/http/host.js'
import { parseAuthority } from '../../src/http/authority.js'

const parseHostField = (fields: Fields, minor: 0 | 1) => parseHostFieldIn(FieldSection.of(fields), minor)

t.test('HTTP/1.1 must carry Host, HTTP/1.0 need not (RFC 9112 §3.2)', async t => {
  t.throws(() => parseHostField(['A', 'b'], 1), { name: 'ProxyError', status: 400, message: 'no Host' })
  t.equal(parseHostField(['A', 'b'], 0), undefined)
})

t.test('refuses more than one Host, even of the same value (RFC 9112 §3.2)', async t => {
  const wanted = { name: 'ProxyError', status: 400, message: 'more than one Host' }
  for (const minor of [0, 1] as const) {
    t.throws(() => parseHostField(['Host', 'a', 'host', 'a'], minor), wanted)
    t.throws(() => parseHostField(['Host', '', 'X', 'y', 'HOST', 'a'], minor), wanted)
  }
})

t.test('gives host and port, 80 where it names none (RFC 9110 §7.2)', async t => {
  for (const minor of [0, 1] as const) {
    t.match(parseHostField(['Host', 'A.example:8080'], minor), { host: { name: 'a.example' }, port: 8080 })
    t.match(parseHostField(['host', '[::1]'], minor), { host: { kind: 'ipv6', name: '::1' }, port: 80 })
  }
})

t.test('refuses a Host that is not host[:port], in every version (RFC 9112 §3.2)', async t => {
  const values = [
    '',
    'a b',
    'a, b',
    'u@a',
    'http://a',
    'a/',
    'a:x',
    'a:0',
    'a:65536',
    '::1',
    '[::1',
    'a?b',
    '\xe9',
    '127.1',
  ]
  for (const value of values) {
    for (const minor of [0, 1] as const) {
      t.throws(
        () => parseHostField(['Host', value], minor),
        { name: 'ProxyError', status: 400 },
        JSON.stringify(value),
      )
    }
  }
})

t.test('a Host that is written as the target is the authority of the target (RFC 9112 §3.2)', async t => {
  for (const [host, isTarget] of [
    ['a.example:8080', true],
    ['A.example:8080', false],
    ['a.example', false],
  ] as const) {
    const target = parseAuthority('a.example:8080', 80)
    const parsed = parseHostFieldIn(FieldSection.of(['Host', host]), 1, target)
    t.equal(parsed === target, isTarget, host)
    t.same(parsed, parseAuthority(host, 80), host)
  }
})
