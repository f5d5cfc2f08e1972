/** The target of a forwarded request: the bytes that reach the origin, and the Host field. */
import { connect } from 'node:net'
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'

/** What follows the authority in the target, and the target that the origin receives. */
const PATHS = [
  ['', '/'],
  ['/', '/'],
  ['?x', '/?x'],
  ['?', '/?'],
  ['?a/b?c', '/?a/b?c'],
  ['/?', '/?'],
  ['//', '//'],
  ['//evil.example/x', '//evil.example/x'],
  ['/a/../b', '/a/../b'],
  ['/./a/.', '/./a/.'],
  ['/%2e%2E/%00%ff', '/%2e%2E/%00%ff'],
  ['/%', '/%'],
  ['/a;p=1,2;q', '/a;p=1,2;q'],
  ['/a%20b+c', '/a%20b+c'],
  ["/!$&'()*+,;=:@-._~", "/!$&'()*+,;=:@-._~"],
  ['/"<>\\^`{|}', '/"<>\\^`{|}'],
  ['/a?b=http://c/d', '/a?b=http://c/d'],
  ['/http://other.example/', '/http://other.example/'],
  ['/[::1]', '/[::1]'],
] as const

t.test('path and query are forwarded byte for byte (RFC 9112 §3.2.2)', async t => {
  const { origin, client } = await forwarded(t)
  let peer: Awaited<ReturnType<typeof origin.accept>> | undefined
  for (const [written, expected] of PATHS) {
    client.write(`GET http://${origin.authority}${written} HTTP/1.1\r\nHost: other.example\r\n\r\n`)
    peer ??= await origin.accept()
    const head = await peer.until('\r\n\r\n')
    t.equal(head.slice(0, head.indexOf('\r\n')), `GET ${expected} HTTP/1.1`, written)
    t.match(head.toLowerCase(), `\r\nhost: ${origin.authority}\r\n`)
    t.equal(head.toLowerCase().split('\r\nhost:').length, 2, 'one Host')
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    await client.until('\r\n\r\n')
  }
  t.equal(origin.accepted, 1, 'all on one connection')
})

t.test(
  'Host is the authority exactly as in the target, with or without the port (RFC 9110 §7.2)',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, LOOPBACK_RULES, {
      lookup: async () => ['127.0.0.1'],
      connector: options => connect({ ...options, host: '127.0.0.1', family: 4, port: origin.port }),
    })
    for (const authority of [
      'a.test',
      'A.TEST',
      'a.test.',
      'a.test:80',
      'a.test:',
      'a.test:0080',
      '[::1]',
      '[::1]:81',
    ]) {
      const client = await rawClient(t, proxy.port)
      client.write(`GET HTTP://${authority}/ HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n`)
      const peer = await origin.accept()
      t.match(await peer.until('\r\n\r\n'), `\r\nHost: ${authority}\r\n`)
      peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
      t.match(await client.untilEnd(), 'HTTP/1.1 204 ')
    }
  },
)

t.test('OPTIONS of an authority without a path becomes `OPTIONS *` (RFC 9112 §3.2.4)', async t => {
  const { origin, client } = await forwarded(t)
  const cases = [
    ['', '*'],
    ['/', '/'],
    ['?', '/?'],
    ['/*', '/*'],
  ] as const
  for (const [written, expected] of cases) {
    client.write(`OPTIONS http://${origin.authority}${written} HTTP/1.1\r\nHost: x\r\n\r\n`)
    const peer = await origin.accept()
    t.match(
      await peer.until('\r\n\r\n'),
      new RegExp(`^OPTIONS ${expected.replace(/[*?]/g, '\\$&')} HTTP/1.1\r\n`),
    )
    peer.write('HTTP/1.1 200 OK\r\nAllow: GET\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    peer.end()
    t.equal(
      await client.until('\r\n\r\n'),
      `HTTP/1.1 200 OK\r\nAllow: GET\r\nDate: ${DATE}\r\nVia: 1.1 sluice-test\r\nContent-Length: 0\r\n\r\n`,
    )
  }
})

t.test('the log has the path without its query unless log.query is set', async t => {
  for (const [yaml, path] of [
    [LOOPBACK_RULES, '/a'],
    [`${LOOPBACK_RULES}log: { query: include }\n`, '/a?secret'],
  ] as const) {
    const { origin, proxy, client } = await forwarded(t, yaml)
    client.write(`GET http://${origin.authority}/a?secret HTTP/1.1\r\nHost: x\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 204 No Content\r\n\r\n')
    const expected = { kind: 'forward', method: 'GET', host: '127.0.0.1', port: origin.port, path }
    t.match(await proxy.event('decision'), { ...expected, decision: 'allow', rule: 'local' })
    t.match(await proxy.event('close'), {
      ...expected,
      handler: 'forward',
      status: 204,
      close_reason: 'complete',
      address: origin.authority,
    })
  }
})
