/** Requests in origin-form, forwarded to the upstreams of `origins`: the bytes at both ends. */
import t, { type Test } from 'tap'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const OK = 'HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok'

interface Served {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly client: RawPeer
}

/** @param entry the keys of the route in addition to `path` and `forward` */
async function served(t: Test, entry = '', path = '/', rest = ''): Promise<Served> {
  const origin = await rawOrigin(t)
  const yaml = `origins: [{ path: ${path}, forward: "http://${origin.authority}"${entry} }]\n${rest}`
  const proxy = await testProxy(t, yaml, { wallClock: WALL_CLOCK })
  return { origin, proxy, client: await rawClient(t, proxy.port) }
}

/** The head that the origin receives for a request of the client, and its response. */
async function received({ origin, client }: Served, request: string): Promise<string> {
  client.write(request)
  const peer = origin.peers[0] ?? (await origin.accept())
  const head = await peer.until('\r\n\r\n')
  peer.write(OK)
  await readResponse(client)
  return head
}

t.test('the path is forwarded byte for byte, with the Host of the client (RFC 9110 §7.6)', async t => {
  const { origin, proxy, client } = await served(t)
  client.write('GET /a%2Fb//c;d?e=%41&../f HTTP/1.1\r\nHost: Api.test:80\r\n\r\n')
  const peer = await origin.accept()
  t.equal(
    await peer.until('\r\n\r\n'),
    'GET /a%2Fb//c;d?e=%41&../f HTTP/1.1\r\nhost: Api.test:80\r\nconnection: keep-alive\r\nVia: 1.1 sluice-test\r\n\r\n',
  )
  peer.write(OK)
  t.equal(
    (await readResponse(client)).head,
    'HTTP/1.1 200 OK\r\nDate: x\r\nVia: 1.1 sluice-test\r\nContent-Length: 2\r\n\r\n',
  )
  client.write(
    'GET / HTTP/1.1\r\nHost: api.test\r\nConnection: X\r\nX: 1\r\nProxy-Authorization: secret\r\nA: \xe9\r\nTE: trailers\r\n\r\n',
  )
  t.equal(
    await peer.until('\r\n\r\n'),
    'GET / HTTP/1.1\r\nhost: api.test\r\nconnection: keep-alive\r\nA: \xe9\r\nVia: 1.1 sluice-test\r\n\r\n',
    'on the connection that was open',
  )
  peer.write(OK)
  await readResponse(client)
  t.equal(origin.accepted, 1)
  t.match(await proxy.event('decision'), {
    kind: 'origin',
    method: 'GET',
    host: 'api.test',
    path: '/a%2Fb//c;d',
    decision: 'allow',
    rule: 'origins[0]',
  })
  t.match(await proxy.event('close'), {
    kind: 'origin',
    handler: 'origin',
    status: 200,
    address: origin.authority,
    close_reason: 'complete',
  })
})

t.test('content is forwarded with its trailers, and interim responses are returned', async t => {
  const { origin, client } = await served(t)
  client.write(
    'POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n',
  )
  const peer = await origin.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^POST \/p HTTP\/1\.1\r\nHost: h\r\n/)
  t.match(head, '\r\nExpect: 100-continue\r\n')
  peer.write('HTTP/1.1 100 Continue\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 100 /)
  client.write('3\r\nabc\r\n0\r\nX: 1\r\n\r\n')
  t.equal(await peer.until('X: 1\r\n\r\n'), '3\r\nabc\r\n0\r\nX: 1\r\n\r\n')
  peer.write('HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 103 /)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 201 Created\r\nDate: /)
})

t.test('OPTIONS and a websocket are forwarded as well', async t => {
  const { origin, client } = await served(t)
  client.write('OPTIONS /x HTTP/1.1\r\nHost: h\r\n\r\n')
  const peer = await origin.accept()
  t.match(await peer.until('\r\n\r\n'), /^OPTIONS \/x HTTP\/1\.1\r\n/)
  peer.write('HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), '\r\nAllow: GET\r\n')
  client.write('GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  const other = await origin.accept()
  t.match(await other.until('\r\n\r\n'), '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n')
  other.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 101 /)
  client.write('up')
  t.equal(await other.until(2), 'up')
  other.write('down')
  t.equal(await client.until(4), 'down')
  other.end()
  client.end()
  await client.untilEnd()
})

t.test(
  'host_header: rewrite sends the authority of the URL; keep does too if HTTP/1.0 sent no Host',
  async t => {
    const rewriting = await served(t, ', host_header: rewrite')
    t.match(
      await received(rewriting, 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'),
      `\r\nhost: ${rewriting.origin.authority}\r\n`,
    )
    const keeping = await served(t, ', host_header: keep')
    t.match(
      await received(keeping, 'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'),
      `\r\nhost: ${keeping.origin.authority}\r\n`,
    )
  },
)

t.test('forwarded tells the origin the client, host and scheme (RFC 7239 §4)', async t => {
  const request =
    'GET / HTTP/1.1\r\nHost: h:80\r\nForwarded: for=_x\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\n\r\n'
  const fieldsFor = async (entry: string) => {
    const head = await received(await served(t, entry), request)
    return head.split('\r\n').filter(line => /^(x-)?forwarded/i.test(line))
  }
  const sent = ['Forwarded: for=_x', 'X-Forwarded-For: 192.0.2.9', 'X-Forwarded-Proto: https']
  t.same(await fieldsFor(''), sent)
  t.same(await fieldsFor(', forwarded: none'), sent)
  t.same(await fieldsFor(', forwarded: x-forwarded-for'), [
    'Forwarded: for=_x',
    'X-Forwarded-For: 192.0.2.9, 127.0.0.1',
    'X-Forwarded-Host: h:80',
    'X-Forwarded-Proto: http',
  ])
  t.same(await fieldsFor(', forwarded: forwarded'), [
    'X-Forwarded-For: 192.0.2.9',
    'X-Forwarded-Proto: https',
    'Forwarded: for=_x, for=127.0.0.1;host="h:80";proto=http',
  ])
})

t.test('a method that the route does not allow is 405, with the allowed ones (RFC 9110 §15.5.6)', async t => {
  for (const [methods, method, allow] of [
    ['[HEAD, GET]', 'POST', 'GET, HEAD'],
    ['[GET]', 'HEAD', 'GET'],
    ['[]', 'GET', ''],
    ['[]', 'OPTIONS', ''],
  ] as const) {
    const { origin, client, proxy } = await served(t, `, methods: ${methods}`)
    for (let i = 0; i < 2; i++) {
      client.write(`${method} / HTTP/1.1\r\nHost: h\r\n\r\n`)
      const response = await readResponse(client, method)
      checkRefusal(t, response, { status: 405, method, close: false })
      t.equal(response.fields['allow'], allow)
      if (method !== 'HEAD') t.match(response.body, 'origins[0].methods')
    }
    t.match(await proxy.event('decision'), { decision: 'deny', reason: 'method' })
    t.equal(origin.accepted, 0)
  }
})

t.test('without methods every method is forwarded, except TRACE', async t => {
  const { origin, client } = await served(t)
  // A length of zero is not sent with undici, so that all use one connection.
  let peer: Awaited<ReturnType<typeof origin.accept>> | undefined
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    client.write(`${method} / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n`)
    peer ??= await origin.accept()
    t.match(await peer.until('\r\n\r\n'), new RegExp(`^${method} / HTTP/1\\.1\\r\\n`))
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    t.equal((await readResponse(client, method)).status, 200)
  }
  client.write('TRACE / HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(client)).status, 405)
})

t.test('a path without a route is 404, and one with a dot segment 400', async t => {
  const { origin, client, proxy } = await served(t, ', host: "*.test"', '/v1')
  for (const [host, path, status] of [
    ['a.test', '/v10', 404],
    ['a.test', '/', 404],
    ['a.example', '/v1', 404],
    ['test', '/v1', 404],
    ['a.test', '/v1/..', 400],
    ['a.test', '/v1/%2e%2E/x?y', 400],
    ['a.test', '/v1/a/..%2f..%2Fadmin', 400],
    ['a.test', '/v1/..;x/admin', 400],
  ] as const) {
    client.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const response = await readResponse(client)
    checkRefusal(t, response, { status, close: false })
    t.match(response.body, status === 404 ? 'origins' : 'origins[0]', path)
  }
  t.match(await proxy.event('decision'), { reason: 'no_origin' })
  t.match(await proxy.event('decision', 5), { reason: 'dot_segment' })
  t.equal(origin.accepted, 0)
})

t.test(
  'a CONNECT to the host of an origin is a tunnel subject to the policy, and does not reach the origin',
  async t => {
    const origin = await rawOrigin(t)
    const authority = `localhost:${origin.port}`
    const yaml = `origins: [{ host: localhost, path: /, forward: "http://${origin.authority}" }]`
    const proxy = await testProxy(t, yaml)
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    t.equal((await readResponse(client)).status, 403)
    t.equal(origin.accepted, 0)
  },
)

t.test('absolute-form is forwarded subject to the policy, and does not reach the origin either', async t => {
  const { origin, client } = await served(t)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal((await readResponse(client)).status, 403)
  t.equal(origin.accepted, 0)
})

t.test('rules do not apply, client entries do', async t => {
  const { client } = await served(t, '', '/', 'clients: [{ name: other, cidr: [192.0.2.1] }]')
  client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(client)).status, 403)
  const allowed = await served(t, '', '/', 'rules: {}\ndeny: { addresses: ["127.0.0.0/8"] }')
  t.match(await received(allowed, 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'), /^GET /)
})

t.test('a request that has been here before is 508 (RFC 9110 §7.6.3)', async t => {
  const { origin, client } = await served(t)
  client.write('GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 sluice-test\r\n\r\n')
  t.equal((await readResponse(client)).status, 508)
  t.equal(origin.accepted, 0)
})
