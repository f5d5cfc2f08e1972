import t from 'tap'
import { parseUpstreamUrl, UPSTREAM_PATTERN } from '../../src/config/upstream-url.js'

t.test('a URL is a scheme, a host and a port', async t => {
  for (const [text, scheme, kind, name, port, authority, url] of [
    ['http://a.test', 'http', 'name', 'a.test', 80, 'a.test', 'http://a.test:80'],
    ['https://A.test./', 'https', 'name', 'a.test', 443, 'A.test.', 'https://a.test:443'],
    ['HTTP://10.0.0.5:8080', 'http', 'ipv4', '10.0.0.5', 8080, '10.0.0.5:8080', 'http://10.0.0.5:8080'],
    ['https://[::1]:1/', 'https', 'ipv6', '::1', 1, '[::1]:1', 'https://[::1]:1'],
    ['http://a:65535', 'http', 'name', 'a', 65535, 'a:65535', 'http://a:65535'],
  ] as const) {
    t.match(parseUpstreamUrl(text), {
      scheme,
      authority: { host: { kind, name }, port, text: authority },
      text: url,
    })
    t.match(text, new RegExp(UPSTREAM_PATTERN))
  }
})

t.test('anything else is refused, and said why', async t => {
  for (const [text, clause] of [
    ['', 'does not begin with http'],
    ['a.test', 'does not begin with http'],
    ['//a.test', 'does not begin with http'],
    ['ftp://a.test', 'does not begin with http'],
    ['http:/a.test', 'does not begin with http'],
    ['http://', 'empty host'],
    ['http://a.test/x', 'path or query'],
    ['http://a.test//', 'path or query'],
    ['http://a.test/?', 'path or query'],
    ['http://a.test?x', 'path or query'],
    ['http://a.test#x', 'path or query'],
    ['http://u@a.test', 'userinfo'],
    ['http://a.test:0', 'bad port'],
    ['http://a.test:65536', 'bad port'],
    ['http://127.1', 'bad IPv4 literal'],
    ['http://a b', 'bad host name'],
    ['http://[fe80::1%eth0]', 'bad IPv6 literal'],
    ['http://*.test', 'bad host name'],
  ] as const) {
    t.throws(() => parseUpstreamUrl(text), { name: 'RangeError', message: new RegExp(clause) }, text)
  }
})
