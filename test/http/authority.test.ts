import t from 'tap'
import {
  parseAuthority,
  parseHost,
  parseHostField as parseHostFieldIn,
  serializeHostPort,
} from '../../src/http/authority.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'

const parseHostField = (fields: Fields, minor: 0 | 1) => parseHostFieldIn(FieldSection.of(fields), minor)

const REFUSED = { name: 'ProxyError', status: 400, close: true }
const LABEL_63 = 'a'.repeat(63)
/** 253 bytes, the maximum length of a name. */
const LONGEST = `${`${LABEL_63}.`.repeat(3)}${'b'.repeat(61)}`

t.test('a host name is converted to lower case and loses one trailing dot (RFC 3986 §3.2.2)', async t => {
  for (const [text, name] of [
    ['example.com', 'example.com'],
    ['EXAMPLE.Com', 'example.com'],
    ['example.com.', 'example.com'],
    ['localhost', 'localhost'],
    ['a', 'a'],
    ['a_b.c-d', 'a_b.c-d'],
    ['-a-', '-a-'],
    ['1a', '1a'],
    ['123.com', '123.com'],
    ['1.2.3.4.com', '1.2.3.4.com'],
    ['0xz', '0xz'],
    ['1.2.3.4a', '1.2.3.4a'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    [LABEL_63, LABEL_63],
    [LONGEST, LONGEST],
    [`${LONGEST}.`, LONGEST],
  ] as const) {
    t.same(parseHost(text), { kind: 'name', name }, text)
  }
})

t.test('four plain decimal parts are an IPv4 address (RFC 3986 §3.2.2)', async t => {
  for (const text of ['0.0.0.0', '1.2.3.4', '10.99.100.199', '200.249.250.255', '255.255.255.255']) {
    t.same(parseHost(text), { kind: 'ipv4', name: text })
    t.same(parseHost(`${text}.`), { kind: 'ipv4', name: text }, 'the trailing dot goes first')
  }
})

t.test('a bracketed IPv6 address loses its brackets (RFC 3986 §3.2.2)', async t => {
  for (const [text, name] of [
    ['[::1]', '::1'],
    ['[::]', '::'],
    ['[2001:DB8::A]', '2001:db8::a'],
    ['[::ffff:1.2.3.4]', '::ffff:1.2.3.4'],
    ['[1:2:3:4:5:6:7:8]', '1:2:3:4:5:6:7:8'],
  ] as const) {
    t.same(parseHost(text), { kind: 'ipv6', name })
  }
})

t.test('refuses every other notation of a number that a resolver would accept (RFC 1123 §2.1)', async t => {
  for (const text of [
    '0177.0.0.1',
    '2130706433',
    '0x7f.1',
    '0x7f000001',
    '0X7F.0.0.1',
    '0x',
    '127.1',
    '127.0.1',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.256',
    '1.2.3.04',
    '01.2.3.4',
    '0',
    '0.',
    'a.1',
    'example.0x1f',
    'example.com.1',
    '１２７.0.0.1',
    '127。0.0.1',
    '127.0.0.1\0.example.com',
    '127.0.0.1%00',
  ]) {
    t.throws(() => parseHost(text), REFUSED, JSON.stringify(text))
  }
})

t.test('refuses everything that is not a host (RFC 3986 §3.2.2)', async t => {
  for (const text of [
    '',
    '.',
    '..',
    '.a',
    'a..',
    'a..b',
    '-',
    '_',
    'a.-',
    'a.-.b',
    'a b',
    ' a',
    'a ',
    'a\n',
    'a\t',
    'a%41',
    'a/b',
    'a\\b',
    'a?b',
    'a#b',
    'a,b',
    'a;b',
    'a!b',
    'a*b',
    '*.a',
    "a'b",
    'é.com',
    'b\xfccher.example',
    '\u212aelvin.example',
    `${LABEL_63}a`,
    `${LONGEST}b`,
    '::1',
    '[]',
    '[::1',
    '::1]',
    '[[::1]]',
    '[::1]]',
    '[::1]a',
    '[1.2.3.4]',
    '[a]',
    '[::1%25eth0]',
    '[fe80::1%eth0]',
    '[::1%]',
    '[:::]',
    '[1:2:3:4:5:6:7]',
    '[1:2:3:4:5:6:7:8:9]',
    '[::1.2.3.04]',
    '[v1.a]',
    '[ ::1]',
  ]) {
    t.throws(() => parseHost(text), REFUSED, JSON.stringify(text))
  }
})

t.test('an authority is host and port, and its text is preserved (RFC 9112 §3.2.3)', async t => {
  for (const [text, name, port] of [
    ['a:1', 'a', 1],
    ['Example.COM.:443', 'example.com', 443],
    ['a:65535', 'a', 65535],
    ['a:00080', 'a', 80],
    ['1.2.3.4:80', '1.2.3.4', 80],
    ['[::1]:8080', '::1', 8080],
  ] as const) {
    t.match(parseAuthority(text), { host: { name }, port, text })
    t.match(parseAuthority(text, 99), { host: { name }, port, text })
  }
})

t.test('CONNECT needs both host and port (RFC 9112 §3.2.3)', async t => {
  for (const text of ['a', 'a:', '[::1]', '[::1]:', ':443', '443', '', ':']) {
    t.throws(() => parseAuthority(text), REFUSED, text)
  }
})

t.test("without a port it is the scheme's, and an empty one too (RFC 9110 §4.2.1)", async t => {
  for (const text of ['a', 'a:', 'A.'])
    t.match(parseAuthority(text, 80), { host: { name: 'a' }, port: 80, text })
  t.match(parseAuthority('[::1]', 80), { host: { kind: 'ipv6', name: '::1' }, port: 80 })
  t.match(parseAuthority('[::1]:', 80), { host: { kind: 'ipv6', name: '::1' }, port: 80 })
})

t.test('refuses ports that are not 1 to 65535 in plain digits (RFC 3986 §3.2)', async t => {
  const ports = [
    '0',
    '00000',
    '65536',
    '99999',
    '000080',
    '100000',
    '-1',
    '+1',
    '1.',
    '0x50',
    '8 0',
    ' 80',
    '80 ',
    'x',
  ]
  for (const port of [...ports, '80:', '80:80', ':80', '80/', '80\n', '٨٠', '1e3', 'http']) {
    for (const host of ['a', '[::1]', '1.2.3.4']) {
      t.throws(() => parseAuthority(`${host}:${port}`), REFUSED, JSON.stringify(port))
      t.throws(() => parseAuthority(`${host}:${port}`, 80), REFUSED, JSON.stringify(port))
    }
  }
})

t.test('refuses userinfo (RFC 9110 §4.2.4)', async t => {
  for (const text of [
    'u@a:80',
    'u:p@a:80',
    '@a:80',
    'a@:80',
    'a:80@b',
    'a:80@b:443',
    '[::1]@b:80',
    'u%40@a:80',
  ]) {
    t.throws(() => parseAuthority(text, 80), { ...REFUSED, message: 'userinfo in the authority' }, text)
  }
})

t.test('refuses brackets in the wrong place and an empty host (RFC 9110 §7.2)', async t => {
  for (const text of [
    '',
    ':80',
    'a]:80',
    '[a:80',
    '[::1]a:80',
    'a[::1]:80',
    '::1:80',
    '[::1',
    '[]:80',
    '[::1]]:80',
  ]) {
    t.throws(() => parseAuthority(text, 80), REFUSED, text)
  }
})

t.test('host and port in messages have IPv6 in brackets', async t => {
  t.equal(serializeHostPort(parseHost('[::1]'), 80), '[::1]:80')
  t.equal(serializeHostPort(parseHost('1.2.3.4'), 80), '1.2.3.4:80')
  t.equal(serializeHostPort(parseHost('A.'), 443), 'a:443')
})

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

t.test('returns host and port, 80 when none is given (RFC 9110 §7.2)', async t => {
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

t.test('a Host field equal to the target returns the authority of the target (RFC 9112 §3.2)', async t => {
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
