import t from 'tap'
import { parseHostField } from '../../src/http/host.js'

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
