import t from 'tap'
import { parseAuthority } from '../../src/http/authority.js'
import { parseCacheUri, serializeCacheUri } from '../../src/cache/cache-uri.js'

t.test('scheme and host are in lower case, and the port is always present', async t => {
  for (const [url, uri] of [
    ['http://a.test/', 'http://a.test:80/'],
    ['HTTP://A.Test', 'http://a.test:80/'],
    ['https://a.test/x', 'https://a.test:443/x'],
    ['http://a.test:8080/x', 'http://a.test:8080/x'],
    ['http://[2001:DB8::1]/x', 'http://[2001:db8::1]:80/x'],
    ['http://10.0.0.1:80/x', 'http://10.0.0.1:80/x'],
  ] as const) {
    t.equal(parseCacheUri(url), uri, url)
  }
})

t.test('path and query are kept as requested', async t => {
  for (const path of ['/A/%7eb/../c', '/a//b', '/?', '/a?B=%2F&c', '/a?b?c', "/!$&'()*+,;=:@|<>{}^`\\"]) {
    t.equal(parseCacheUri(`http://a.test${path}`), `http://a.test:80${path}`)
  }
  t.equal(parseCacheUri('http://a.test?x'), 'http://a.test:80/?x', 'an empty path is /')
})

t.test('text that cannot be the URL of a request is refused', async t => {
  for (const text of [
    '',
    '/a',
    'a.test/b',
    'ftp://a.test/',
    'http:/a.test/',
    'http://',
    'http:///a',
    'http://a.test:0/',
    'http://a.test:x/',
    'http://me@a.test/',
    'http://a.test/#b',
    'http://a.test/ b',
    'http://a.test/\u00e4',
    'http://a..test/',
    'http://a.test/\n',
  ]) {
    t.throws(() => parseCacheUri(text), { name: 'RangeError', message: 'expected a URL such as' }, text)
  }
})

t.test('it equals the URI that is made from the parsed request', async t => {
  t.equal(serializeCacheUri('http', parseAuthority('A.test', 80), '/b?c'), parseCacheUri('http://a.test/b?c'))
})
