import t from 'tap'
import { hasJsonType, isSameOrigin, parseOwnHost } from '../../src/admin/own-request.js'

t.test('Host is localhost, an address or one of the names, in whatever spelling', async t => {
  const hosts = ['sluice.test']
  for (const value of ['localhost', 'LOCALHOST.:9128', '127.0.0.1', '[::1]:1', 'Sluice.Test:80']) {
    t.not(parseOwnHost(value, hosts), undefined, value)
  }
  for (const value of [
    undefined,
    '',
    'evil.test',
    'a.sluice.test',
    'sluice.test.evil.test',
    'a@localhost',
    '127.1',
  ]) {
    t.equal(parseOwnHost(value, hosts), undefined, String(value))
  }
  t.match(parseOwnHost('[::1]:9128', hosts), { host: { kind: 'ipv6', name: '::1' }, port: 9128 })
})

t.test(
  'what a browser says of the page it comes from decides, else Origin, which programs do not send',
  async t => {
    const host = 'localhost:9128'
    const table: [Record<string, string>, boolean][] = [
      [{}, true],
      [{ 'sec-fetch-site': 'same-origin' }, true],
      [{ 'sec-fetch-site': 'same-origin', origin: 'http://localhost:9128' }, true],
      [{ 'sec-fetch-site': 'same-site' }, false],
      [{ 'sec-fetch-site': 'cross-site' }, false],
      [{ 'sec-fetch-site': 'none' }, false],
      [{ 'sec-fetch-site': '' }, false],
      [{ 'sec-fetch-site': 'cross-site', origin: 'http://localhost:9128' }, false],
      [{ origin: 'http://localhost:9128' }, true],
      [{ origin: 'http://localhost' }, false],
      [{ origin: 'http://localhost:9129' }, false],
      [{ origin: 'https://localhost:9128' }, false],
      [{ origin: 'http://evil.test' }, false],
      [{ origin: 'null' }, false],
      [{ origin: '' }, false],
    ]
    for (const [headers, expected] of table) {
      t.equal(isSameOrigin({ host, ...headers }), expected, JSON.stringify(headers))
    }
  },
)

t.test('JSON is a type that no form sends', async t => {
  for (const type of ['application/json', 'Application/JSON', 'application/json; charset=utf-8']) {
    t.equal(hasJsonType({ 'content-type': type }), true, type)
  }
  for (const type of [
    'text/plain',
    'text/plain; application/json',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    '',
  ]) {
    t.equal(hasJsonType({ 'content-type': type }), false, type)
  }
  t.equal(hasJsonType({}), false)
})
