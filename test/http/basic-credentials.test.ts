import t from 'tap'
import {
  BASIC_CHALLENGE,
  parseProxyAuthorization as parseProxyAuthorizationIn,
  serializeBasic,
} from '../../src/http/basic-credentials.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'

const FIELD = 'Proxy-Authorization'

const encode = (text: string | Uint8Array): string => Buffer.from(text).toString('base64')
const parseProxyAuthorization = (fields: Fields) => parseProxyAuthorizationIn(FieldSection.of(fields))
const parse = (value: string) => parseProxyAuthorization([FIELD, value])

t.test('the challenge names a realm and UTF-8 (RFC 9110 §11.7.1, RFC 7617 §2.1)', async t => {
  t.equal(BASIC_CHALLENGE, 'Basic realm="Sluice", charset="UTF-8"')
})

t.test('the user ends at the first colon (RFC 7617 §2)', async t => {
  for (const [text, user, password] of [
    ['a:b', 'a', 'b'],
    ['a:', 'a', ''],
    [':b', '', 'b'],
    [':', '', ''],
    ['a:b:c', 'a', 'b:c'],
    ['a::', 'a', ':'],
    ['a b: c ', 'a b', ' c '],
    ['ä:\u{1f511}', 'ä', '\u{1f511}'],
    ['\ufeffa:b', '\ufeffa', 'b'],
    ['a:\u0080', 'a', '\u0080'],
    ['~:!', '~', '!'],
  ] as const) {
    t.same(parse(`Basic ${encode(text)}`), { user, password }, JSON.stringify(text))
  }
})

t.test(
  'the case of the scheme does not matter, and any number of spaces may follow it (RFC 9110 §11.4)',
  async t => {
    for (const scheme of ['Basic ', 'basic ', 'BASIC ', 'bAsIc   ']) {
      t.same(parse(`${scheme}YTpi`), { user: 'a', password: 'b' }, scheme)
    }
    for (const value of [
      'Basic\tYTpi',
      'Basic',
      'Basic ',
      'Basic=YTpi',
      'Basic,YTpi',
      '',
      ' ',
      '"Basic" YTpi',
    ]) {
      t.equal(parse(value), 'malformed', JSON.stringify(value))
    }
  },
)

t.test('credentials of another scheme are missing, not malformed (RFC 9110 §11.6.2, §11.7.2)', async t => {
  t.equal(parseProxyAuthorization([]), 'missing')
  t.equal(parseProxyAuthorization(['Authorization', 'Basic YTpi']), 'missing')
  for (const value of ['Bearer YTpi', 'Basics YTpi', 'Basi YTpi', 'Digest username="a", realm="b"', 'NTLM']) {
    t.equal(parse(value), 'missing', value)
  }
})

t.test('one field, whatever its case, with one value is accepted (RFC 9110 §11.7.2)', async t => {
  t.same(parseProxyAuthorization(['PROXY-authorization', 'Basic YTpi']), { user: 'a', password: 'b' })
  t.equal(parseProxyAuthorization([FIELD, 'Basic YTpi', 'proxy-authorization', 'Basic YTpi']), 'malformed')
  t.equal(parseProxyAuthorization([FIELD, 'Bearer x', FIELD, 'Basic YTpi']), 'malformed')
  t.equal(parse('Basic YTpi, Basic YTpi'), 'malformed')
  t.equal(parse('Basic YTpi YTpi'), 'malformed')
})

t.test('only canonical base64 is accepted: alphabet, padding and unused bits (RFC 7617 §2)', async t => {
  for (const text of ['YTpi', 'YWE6Yg==', 'YTpiYmI=', 'Oi8v', 'Oj4+']) {
    t.type(parse(`Basic ${text}`), 'object', text)
  }
  for (const text of [
    'YWE6Yg', // no padding
    'YWE6Yg=',
    'YWE6Yg===',
    'YTpi====',
    'YTpiYmI',
    'YWE6Yh==', // unused bits set
    'YTpiYmJ=',
    'Oi9_', // the alphabet of file names and URLs
    'Oj4-',
    'YTpi.',
    'YT:pi',
    'YTp\u00ef',
    'Y',
    'YT=pi',
    '=',
    'YQ==', // no colon
  ]) {
    t.equal(parse(`Basic ${text}`), 'malformed', text)
  }
})

t.test('credentials that are not UTF-8 are malformed (RFC 7617 §2.1)', async t => {
  for (const bytes of [
    [0x61, 0x3a, 0xff],
    [0x61, 0x3a, 0xe4], // ä in latin1
    [0xc3, 0x3a, 0x61], // cut short
    [0x3a, 0xc0, 0x80], // NUL the long way
    [0x3a, 0xed, 0xa0, 0x80], // half of a pair
    [0x3a, 0xf4, 0x90, 0x80, 0x80], // past U+10FFFF
  ]) {
    t.equal(parse(`Basic ${encode(Uint8Array.from(bytes))}`), 'malformed', String(bytes))
  }
})

t.test('neither part may contain a control character (RFC 7617 §2)', async t => {
  for (let code = 0; code <= 0x80; code++) {
    const char = String.fromCharCode(code)
    const expected = code < 0x20 || code === 0x7f ? 'malformed' : 'object'
    for (const text of [`a${char}:b`, `a:b${char}`]) {
      const parsed = parse(`Basic ${encode(text)}`)
      t.equal(typeof parsed === 'string' ? parsed : typeof parsed, expected, JSON.stringify(text))
    }
  }
})

t.test('serialised credentials are parsed to the same values (RFC 7617 §2)', async t => {
  for (const credentials of [
    { user: 'me', password: 'a:b c' },
    { user: 'm\u00e4', password: '' },
  ]) {
    t.same(parseProxyAuthorization(['Proxy-Authorization', serializeBasic(credentials)]), credentials)
  }
})
