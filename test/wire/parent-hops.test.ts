/** Two proxies in a row, and a parent over TLS. */
import { connect } from 'node:net'
import t from 'tap'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { ANY_HOST, connectTo } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { Authority } from '../kit/peers/authority.js'
import { clientHello } from '../kit/peers/client-hello.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { tlsOrigin } from '../kit/peers/tls-origin.js'
import { needs } from '../kit/processes/command.js'
import { OK } from '../kit/peers/responses.js'

const LOOPBACK = { lookup: async () => ['127.0.0.1'] }
const skip = needs('openssl')

t.test('two in a row: both are in Via, and Max-Forwards counts them (RFC 9110 §7.6.2, §7.6.3)', async t => {
  const origin = await rawOrigin(t)
  const trace = 'trace: { enabled: true }\n'
  const outer = await testProxy(t, `via: outer\n${trace}${LOOPBACK_RULES}`, LOOPBACK)
  const inner = await testProxy(
    t,
    `via: inner\n${trace}parent: { url: "http://127.0.0.1:${outer.port}" }\n${ANY_HOST}`,
    LOOPBACK,
  )
  const client = await rawClient(t, inner.port)
  const url = `http://o.test:${origin.port}`
  client.write(`GET ${url}/p HTTP/1.1\r\nHost: x\r\n\r\n`)
  const peer = await origin.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^GET \/p HTTP\/1\.1\r\n/)
  t.match(head, '\r\nVia: 1.1 inner\r\nVia: 1.1 outer\r\n')
  peer.write(OK)
  t.equal((await readResponse(client)).fields['via'], '1.1 outer, 1.1 inner')

  client.write(`TRACE ${url}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 1\r\n\r\n`)
  const echo = await readResponse(client)
  t.match(echo.body, `TRACE ${url}/ HTTP/1.1\r\n`)
  t.match(echo.body, '\r\nMax-Forwards: 0\r\nVia: 1.1 inner\r\n')
  client.write(`TRACE ${url}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n`)
  t.notMatch((await readResponse(client)).body, 'inner', 'it ended at the first')
  client.write(`OPTIONS ${url} HTTP/1.1\r\nHost: x\r\nMax-Forwards: 2\r\n\r\n`)
  t.match(
    await peer.until('\r\n\r\n'),
    /^OPTIONS \* HTTP\/1\.1\r\n[\s\S]*\r\nMax-Forwards: 0\r\n/,
    'by the last hop',
  )
  peer.write(OK)
  await readResponse(client)

  const tunnel = await rawClient(t, inner.port)
  tunnel.write(`${connectTo(`o.test:${origin.port}`)}up`)
  const far = await origin.accept()
  t.equal(await tunnel.until('\r\n\r\n'), ESTABLISHED)
  t.equal(await far.until('up'), 'up')
  const refused = await rawClient(t, inner.port)
  refused.write(connectTo('other.example:443'))
  const answer = await readResponse(refused)
  t.equal(answer.status, 502)
  t.match(answer.body, 'answered 403 (Sluice: no rule allows other.example:443)')
})

t.test('a parent that is this proxy itself is not dialled', async t => {
  // Every socket of the proxy leads to its own listener, which its configuration cannot know: that port was free.
  const free = await rawOrigin(t)
  for (const [listener, status] of [
    ['proxy', 508],
    ['admin', 403],
  ] as const) {
    const ports = { proxy: 0, admin: 0, [listener]: free.port }
    const listen = `listen: { proxy: ["127.0.0.2:${ports.proxy}"], admin: "127.0.0.2:${ports.admin}" }\n`
    const proxy = await testProxy(
      t,
      `${listen}parent: { url: "http://parent.test:${free.port}" }\n${ANY_HOST}`,
      { lookup: async () => ['127.0.0.2'] },
    )
    for (const [request, expected] of [
      ['GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n', status],
      [connectTo('a.test:443'), 403],
    ] as const) {
      const socket = connect({ host: '127.0.0.2', port: proxy.port })
      const client = new RawPeer(socket)
      t.teardown(() => client.destroy())
      client.write(request)
      const response = await readResponse(client)
      t.equal(response.status, expected)
      t.match(response.body, `parent.url points to http://parent.test:${free.port}`)
    }
    await proxy.drain()
  }
})

t.test('two proxies that are parents of each other do not loop', async t => {
  const first = await rawOrigin(t)
  const second = await testProxy(t, `via: b\nparent: { url: "http://${first.authority}" }\n${ANY_HOST}`)
  const client = await rawClient(t, second.port)
  client.write(connectTo('a.test:443'))
  const peer = await first.accept()
  const request = await peer.until('\r\n\r\n')
  // The request that the other one would send back.
  const again = await rawClient(t, second.port)
  again.write(request.replace('Via: 1.1 b', 'Via: 1.1 b, 1.1 a'))
  t.equal((await readResponse(again)).status, 403)
  t.equal(first.accepted, 1)
})

t.test('a parent over TLS: tunnels and requests, verified for its host', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const parent = await tlsOrigin(t, { ...ca.issue({ san: 'DNS:parent.test' }), allowHalfOpen: true })
  const proxy = await testProxy(
    t,
    `parent: { url: "https://parent.test:${parent.port}", ca: ${ca.certFile} }\n${ANY_HOST}`,
    LOOPBACK,
  )
  const client = await rawClient(t, proxy.port)
  let peer: RawPeer | undefined
  for (const host of ['a.test', 'b.test']) {
    client.write(`GET http://${host}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
    peer ??= await parent.accept()
    t.match(await peer.until('\r\n\r\n'), new RegExp(`^GET http://${host}/ HTTP/1.1\r\n`))
    peer.write(OK)
    t.equal((await readResponse(client)).status, 200)
  }
  const tunnel = await rawClient(t, proxy.port)
  tunnel.write(`${connectTo('a.test:443')}early`)
  const far = await parent.accept()
  t.match(await far.until('\r\n\r\n'), /^CONNECT a\.test:443 HTTP\/1\.1\r\n/)
  far.write('HTTP/1.1 200 OK\r\n\r\nfirst')
  t.equal(await tunnel.until('first'), `${ESTABLISHED}first`)
  t.equal(await far.until('early'), 'early')
  const large = 'x'.repeat(1 << 20)
  far.write(large)
  t.equal((await tunnel.until(large.length)).length, large.length)
  tunnel.write(large)
  t.equal((await far.until(large.length)).length, large.length)
  tunnel.end()
  t.equal(await far.untilEnd(), '')
  far.write('last')
  far.end()
  t.equal(await tunnel.untilEnd(), 'last')
  t.match(await proxy.event('close', 3), {
    parent: `https://parent.test:${parent.port}`,
    close_reason: 'complete',
  })
  t.same(parent.hellos, ['parent.test http/1.1', 'parent.test http/1.1'])
})

t.test('sni: verify applies in a tunnel through a parent over TLS', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const parent = await tlsOrigin(t, ca.issue({ san: 'DNS:parent.test' }))
  const proxy = await testProxy(
    t,
    `connect: { sni: verify }\nparent: { url: "https://parent.test:${parent.port}", ca: ${ca.certFile} }\n${ANY_HOST}`,
    LOOPBACK,
  )
  const client = await rawClient(t, proxy.port)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 OK\r\n\r\nearly')
  await client.until('\r\n\r\n')
  const hello = clientHello('a.test')
  client.write(hello)
  t.equal(await peer.until(hello.length), hello.toString('latin1'))
  t.equal(await client.until('early'), 'early')
  peer.write('more')
  t.equal(await client.until('more'), 'more')
})

t.test('a parent whose certificate is for another host is sent nothing', { skip }, async t => {
  const folder = t.testdir({ pass: 'me:secret' })
  const ca = Authority.make(folder)
  const parent = await tlsOrigin(t, ca.issue({ san: 'DNS:other.test' }))
  const proxy = await testProxy(
    t,
    `parent: { url: "https://parent.test:${parent.port}", ca: ${ca.certFile}, basic_file: ${folder}/pass }\n${ANY_HOST}`,
    LOOPBACK,
  )
  for (const request of [connectTo('a.test:443'), 'GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n']) {
    const client = await rawClient(t, proxy.port)
    client.write(request)
    t.match(await readResponse(client), { status: 502, reason: /certificate not accepted/ })
  }
  t.equal(await parent.heard(), '')
})
