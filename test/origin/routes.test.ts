import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { parseHostPattern } from '../../src/net/host-pattern.js'
import { findRoute, sortRoutes } from '../../src/origin/routes.js'

/** Routes written as `host path`, `-` for no host. */
function table(...lines: string[]) {
  return lines.map(key => {
    const [host = '', path = ''] = key.split(' ')
    return { key, host: host === '-' ? parseHostPattern('*') : parseHostPattern(host), path, methods: [] }
  })
}

const ROUTES = table(
  '- /',
  '*.test /',
  'a.test /v1',
  '- /v1',
  '*.a.test /',
  'a.test /v1/x',
  '127.0.0.1 /',
  '::1 /',
  '10.0.0.0/8 /',
  '10.1.0.0/16 /',
  '10.1.2.3 /v1',
  '2001:db8::/32 /',
  '- /v1/long/path',
  '- /caf%C3%A9',
)

function chosen(host: string | undefined, path: string): string | undefined {
  const parsed = host === undefined ? undefined : parseHost(host)
  const forward = findRoute(sortRoutes(ROUTES), parsed, path)?.key
  t.equal(findRoute(sortRoutes([...ROUTES].reverse()), parsed, path)?.key, forward, 'order has no meaning')
  return forward
}

t.test('the most specific host takes precedence, then the longest path (RFC 9110 §7.4)', async t => {
  for (const [host, path, key] of [
    ['a.test', '/v1', 'a.test /v1'],
    ['A.TEST.', '/v1/', 'a.test /v1'],
    ['a.test', '/v1/x', 'a.test /v1/x'],
    ['a.test', '/v1/x/y', 'a.test /v1/x'],
    ['a.test', '/v1/xy', 'a.test /v1'],
    ['a.test', '/v10', '*.test /'],
    ['a.test', '/v1/long/path', 'a.test /v1'],
    ['a.test', '/%76%31', 'a.test /v1'],
    ['test', '/caf%c3%a9/x', '- /caf%C3%A9'],
    ['b.test', '/v1', '*.test /'],
    ['b.a.test', '/v1', '*.a.test /'],
    ['test', '/v1', '- /v1'],
    ['atest', '/', '- /'],
    ['other', '/v1/long/path/x', '- /v1/long/path'],
    ['127.0.0.1', '/v1', '127.0.0.1 /'],
    ['[::1]', '/v1', '::1 /'],
    ['[0:0::1]', '/v1', '::1 /'],
    ['127.0.0.2', '/v1', '- /v1'],
    ['10.2.0.1', '/v1', '10.0.0.0/8 /'],
    ['10.1.2.4', '/v1', '10.1.0.0/16 /'],
    ['10.1.2.3', '/v1', '10.1.2.3 /v1'],
    ['10.1.2.3', '/v2', '10.1.0.0/16 /'],
    ['11.0.0.1', '/v1', '- /v1'],
    ['[::ffff:10.2.0.1]', '/v1', '10.0.0.0/8 /'],
    ['[2001:db8::1]', '/v1', '2001:db8::/32 /'],
    ['[2001:db9::1]', '/v1', '- /v1'],
    [undefined, '/v1', '- /v1'],
  ] as const) {
    t.equal(chosen(host, path), key, `${host} ${path}`)
  }
})

t.test('there is no route if none matches', async t => {
  const routes = sortRoutes(table('a.test /v1'))
  t.equal(findRoute(routes, parseHost('a.test'), '/'), undefined)
  t.equal(findRoute(routes, parseHost('b.test'), '/v1'), undefined)
  t.equal(findRoute(routes, undefined, '/v1'), undefined)
  t.equal(findRoute([], undefined, '/'), undefined)
})
