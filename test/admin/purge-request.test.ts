import t from 'tap'
import { parsePurge, parsePurgedHost, serializePurge } from '../../src/admin/purge-request.js'

t.test('a query names what is purged, and is written as it is read', async t => {
  for (const [query, what] of [
    ['all', { kind: 'all' }],
    ['all=', { kind: 'all' }],
    ['host=A.Test.', { kind: 'host', host: 'a.test' }],
    ['host=%5B%3A%3A1%5D', { kind: 'host', host: '::1' }],
    ['uri=http%3A%2F%2FA.test%2Fb%3Fc%3D1%26d%2B%2520', { kind: 'uri', uri: 'http://a.test:80/b?c=1&d+%20' }],
  ] as const) {
    t.same(parsePurge(query), what, query)
    t.same(parsePurge(serializePurge(what)), what, query)
  }
})

t.test('anything else is refused: a slip must not empty the cache', async t => {
  for (const query of [
    '',
    'all=1',
    'all&host=a.test',
    'host=a.test&host=b.test',
    'url=http%3A%2F%2Fa.test%2F',
    'All',
  ]) {
    t.throws(
      () => parsePurge(query),
      { name: 'RangeError', message: 'expected one of all, host=NAME and uri=URL' },
      query,
    )
  }
  for (const query of ['host=', 'host', 'host=a.test:80', 'host=*', 'host=a%2Fb', 'host=::1:x']) {
    t.throws(
      () => parsePurge(query),
      { name: 'RangeError', message: 'expected a host name or an IP address' },
      query,
    )
  }
  t.throws(() => parsePurge('uri=a.test'), { name: 'RangeError', message: 'expected a URL' })
})

t.test('an IPv6 address may have brackets', async t => {
  t.equal(parsePurgedHost('2001:DB8::1'), '2001:db8::1')
  t.equal(parsePurgedHost('[2001:db8::1]'), '2001:db8::1')
})
