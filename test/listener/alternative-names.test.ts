import t from 'tap'
import { parseAlternativeNames } from '../../src/listener/alternative-names.js'

t.test('reads each kind of name (RFC 5280 §4.2.1.6)', async t => {
  t.same(
    parseAlternativeNames(
      'DNS:ci.example, URI:spiffe://example/ci, email:ci@example.com, IP Address:10.0.0.1, IP Address:fd00::1, ' +
        'Registered ID:1.2.3.4, DirName:CN=x, othername:<unsupported>',
    ),
    [
      { kind: 'DNS', value: 'ci.example' },
      { kind: 'URI', value: 'spiffe://example/ci' },
      { kind: 'email', value: 'ci@example.com' },
      { kind: 'IP Address', value: '10.0.0.1' },
      { kind: 'IP Address', value: 'fd00::1' },
      { kind: 'Registered ID', value: '1.2.3.4' },
      { kind: 'DirName', value: 'CN=x' },
      { kind: 'othername', value: '<unsupported>' },
    ],
  )
})

t.test('takes what is in quotes for one name, whatever it holds', async t => {
  t.same(parseAlternativeNames(String.raw`DNS:"a\u002c DNS:admin", DNS:b`), [
    { kind: 'DNS', value: 'a, DNS:admin' },
    { kind: 'DNS', value: 'b' },
  ])
  t.same(parseAlternativeNames(String.raw`DNS:"\"\\\u0000\u000a'"`), [{ kind: 'DNS', value: '"\\\0\n\'' }])
  t.same(parseAlternativeNames('DNS:""'), [{ kind: 'DNS', value: '' }])
})

t.test('refuses a line that is not whole of that form', async t => {
  for (const line of [
    '',
    'DNS',
    'DNS:a,',
    'DNS:a, ',
    'DNS:a,DNS:b',
    'DNS:a,  DNS:b',
    ', DNS:a',
    'DNS:a, , DNS:b',
    'DNS:a b\n',
    'DNS:a\0',
    "DNS:a'b",
    'DNS:a"b"',
    'DNS:a\\u002c',
    'DNS:"a',
    'DNS:"a"b',
    'DNS:"a, b"',
    'DNS:"a\\n"',
    'DNS:"\\u002"',
    'DNS:"\\u002C"',
    '"DNS:a"',
    ':a',
  ]) {
    t.throws(() => parseAlternativeNames(line), RangeError, JSON.stringify(line))
  }
})
