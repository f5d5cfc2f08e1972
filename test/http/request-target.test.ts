import t from 'tap'
import { METHOD_NAMES } from '../../src/http/method.js'
import { parseRequestTarget } from '../../src/http/request-target.js'

const REFUSED = { name: 'ProxyError', status: 400, close: true }
const RESOURCE_METHODS = METHOD_NAMES.filter(method => method !== 'CONNECT')

t.test('origin-form is a path and is forwarded unchanged (RFC 9112 §3.2.1)', async t => {
  for (const path of [
    '/',
    '/a?b',
    '//a',
    '/../x',
    '/%00',
    '/a\\b',
    '/http://b/',
    '/*',
    '/?',
    '/a@b',
    '/"<>^`{|}',
  ]) {
    for (const method of RESOURCE_METHODS) t.same(parseRequestTarget(method, path), { form: 'origin', path })
  }
})

t.test('absolute-form is http, authority and path (RFC 9112 §3.2.2)', async t => {
  for (const [text, name, port, path] of [
    ['http://a/', 'a', 80, '/'],
    ['http://a', 'a', 80, '/'],
    ['HTTP://A.Example:8080/x?y', 'a.example', 8080, '/x?y'],
    ['http://[::1]:81/x', '::1', 81, '/x'],
    ['http://1.2.3.4', '1.2.3.4', 80, '/'],
    ['http://a:', 'a', 80, '/'],
    ['http://a:/b', 'a', 80, '/b'],
    ['http://a//b', 'a', 80, '//b'],
    ['http://a/http://b@c:1/', 'a', 80, '/http://b@c:1/'],
    ['http://a/?u@b', 'a', 80, '/?u@b'],
  ] as const) {
    for (const method of RESOURCE_METHODS) {
      const wanted = { form: 'absolute', scheme: 'http', authority: { host: { name }, port }, path }
      t.match(parseRequestTarget(method, text), wanted, text)
    }
  }
})

t.test('an empty path becomes / and the query after it is kept (RFC 9112 §3.2.1)', async t => {
  t.match(parseRequestTarget('GET', 'http://a?x'), { authority: { text: 'a' }, path: '/?x' })
  t.match(parseRequestTarget('GET', 'http://a:80?x/y'), { authority: { text: 'a:80' }, path: '/?x/y' })
  t.match(parseRequestTarget('OPTIONS', 'http://a'), { path: '/' })
})

t.test('authority-form is for CONNECT, which allows no other (RFC 9112 §3.2.3)', async t => {
  t.match(parseRequestTarget('CONNECT', 'a.example:443'), {
    form: 'authority',
    authority: { host: { name: 'a.example' }, port: 443, text: 'a.example:443' },
  })
  const others = [
    '/',
    '*',
    'http://a/',
    'http://a:80',
    'a',
    'a:',
    ':443',
    'a:0',
    'a:65536',
    'a:443/',
    'a:443?',
    'a:443#',
  ]
  for (const text of [...others, 'u@a:443', '[::1]', '//a:443', 'a/b:443']) {
    t.throws(() => parseRequestTarget('CONNECT', text), REFUSED, text)
  }
  for (const method of RESOURCE_METHODS) {
    for (const text of ['a:443', '[::1]:443', '1.2.3.4:80', 'a']) {
      t.throws(() => parseRequestTarget(method, text), REFUSED, `${method} ${text}`)
    }
  }
})

t.test('asterisk-form is only for OPTIONS (RFC 9112 §3.2.4)', async t => {
  t.same(parseRequestTarget('OPTIONS', '*'), { form: 'asterisk' })
  for (const method of METHOD_NAMES.filter(name => name !== 'OPTIONS')) {
    t.throws(() => parseRequestTarget(method, '*'), REFUSED, method)
  }
  for (const text of ['**', '*/', '*?', '*a'])
    t.throws(() => parseRequestTarget('OPTIONS', text), REFUSED, text)
})

t.test('says that https needs CONNECT, and refuses every other scheme (RFC 9112 §3.2.2)', async t => {
  for (const text of ['https://a/', 'HTTPS://a']) {
    t.throws(() => parseRequestTarget('GET', text), { ...REFUSED, reason: 'https_target' })
  }
  for (const text of ['ftp://a/', 'ws://a/', 'httpx://a/', 'h+t.t-p1://a/', 'file:///etc/passwd']) {
    t.throws(() => parseRequestTarget('GET', text), { ...REFUSED, reason: 'scheme' }, text)
  }
})

t.test('refuses a fragment, userinfo, an empty host and texts of no form (RFC 9112 §3.2)', async t => {
  for (const text of [
    '/#',
    '/a#b',
    'http://a/#b',
    'http://a#b',
    '*#',
    'http://u@a/',
    'http://u:p@a/',
    'http://@a/',
    'http://',
    'http:///',
    'http:///a',
    'http://?a',
    'http://:80/',
    'http:/a',
    'http:a',
    'http:',
    '://a/',
    '1http://a/',
    'a/b',
    '?a',
    '',
    '.',
    'http//a',
    'mailto:a',
  ]) {
    t.throws(() => parseRequestTarget('OPTIONS', text), REFUSED, text)
  }
})

t.test(
  'the authority ends at the first slash or question mark, never at a backslash (RFC 3986 §3.2)',
  async t => {
    for (const text of [
      'http://a\\b/',
      'http://a\\@b/',
      'http://a\\/b',
      'http:\\\\a/',
      'http:/\\a/',
      'http://a;b/',
      'http://a,b/',
    ]) {
      t.throws(() => parseRequestTarget('GET', text), REFUSED, text)
    }
    t.match(parseRequestTarget('GET', 'http://a?@b/'), { authority: { host: { name: 'a' } }, path: '/?@b/' })
  },
)

t.test(
  'nothing is repaired: tabs, spaces, percent signs and numbers in the host are refused (RFC 9112 §3.2)',
  async t => {
    for (const host of [
      'a\tb',
      'a b',
      'a%2eb',
      '0x7f.1',
      '2130706433',
      '127.1',
      '\xe9',
      'a..b',
      '[::1%25lo]',
      'a:99999',
    ]) {
      t.throws(() => parseRequestTarget('GET', `http://${host}/`), REFUSED, JSON.stringify(host))
    }
  },
)
