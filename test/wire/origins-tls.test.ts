/** https:// upstreams of `origins`: what is verified, and the result for an upstream that fails verification. */
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { Authority, type Issued } from '../kit/peers/authority.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { type RawResponse, readResponse } from '../kit/peers/read-response.js'
import { tlsOrigin } from '../kit/peers/tls-origin.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { needs } from '../kit/processes/command.js'
import { OK } from '../kit/peers/responses.js'

const LOOPBACK = { lookup: async () => ['127.0.0.1'] }
const skip = needs('openssl')

/** The response for a client through a route to `host`, on a port where only TLS can answer. */
async function asked(t: Test, port: number, host: string, entry: string): Promise<RawResponse> {
  const yaml = `origins: [{ path: /, forward: "https://${host}:${port}"${entry} }]`
  const proxy = await testProxy(t, yaml, LOOPBACK)
  const client = await rawClient(t, proxy.port)
  client.write('GET / HTTP/1.1\r\nHost: outside.test\r\n\r\n')
  return await readResponse(client)
}

t.test('a certificate for the name is valid, and the connection is used again', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const origin = await tlsOrigin(t, ca.issue({ san: 'DNS:api.test' }))
  const yaml = `origins: [{ path: /, forward: "https://api.test:${origin.port}", ca: ${ca.certFile} }]`
  const proxy = await testProxy(t, yaml, LOOPBACK)
  const client = await rawClient(t, proxy.port)
  for (const [method, content] of [
    ['GET', ''],
    ['PUT', 'abc'],
  ] as const) {
    const fields = content === '' ? '' : `Content-Length: ${content.length}\r\n`
    // Requests without content are sent with undici, others with the proxy's own sender: each has its own connections.
    let peer: RawPeer | undefined
    for (let i = 0; i < 2; i++) {
      client.write(`${method} /p HTTP/1.1\r\nHost: outside.test\r\n${fields}\r\n${content}`)
      peer ??= await origin.accept()
      const head = await peer.until('\r\n\r\n')
      t.match(head, new RegExp(`^${method} /p HTTP/1\\.1\\r\\n`))
      t.match(head, /\r\nhost: outside\.test\r\n/i, 'the Host of the client, not the name that was verified')
      t.equal(await peer.until(content.length), content)
      peer.write(OK)
      t.equal((await readResponse(client)).status, 200)
    }
  }
  t.same(origin.hellos, ['api.test http/1.1', 'api.test http/1.1'], 'one connection for each')
  t.match(await proxy.event('close'), { address: `127.0.0.1:${origin.port}`, connect_ms: Number })
})

t.test('a websocket works over TLS as well', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const origin = await tlsOrigin(t, ca.issue({ san: 'DNS:api.test' }))
  const yaml = `origins: [{ path: /, forward: "https://api.test:${origin.port}", ca: ${ca.certFile} }]`
  const proxy = await testProxy(t, yaml, LOOPBACK)
  const client = await rawClient(t, proxy.port)
  client.write('GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly')
  t.match(await client.until('early'), /^HTTP\/1\.1 101 /)
  client.write('up')
  t.equal(await peer.until(2), 'up')
  peer.end()
  t.equal(await client.untilEnd(), '')
  client.end()
  t.match(await proxy.event('close'), { status: 101, bytes_up: 2, bytes_down: 5 })
})

t.test('an address is verified as an address, and is not sent as server name', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const origin = await tlsOrigin(t, ca.issue({ san: 'IP:127.0.0.1' }))
  const answer = asked(t, origin.port, '127.0.0.1', `, ca: ${ca.certFile}`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(OK)
  t.equal((await answer).status, 200)
  t.same(origin.hellos, ['false http/1.1'])
})

t.test('any other certificate is 502 before a byte of the request is sent', { skip }, async t => {
  const folder = t.testdir()
  const ca = Authority.make(folder)
  const stranger = Authority.make(folder, 'stranger')
  const trusting = `, ca: ${ca.certFile}`
  for (const [what, issued, host, entry, code] of [
    [
      'another name',
      ca.issue({ san: 'DNS:other.test' }),
      'api.test',
      trusting,
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ],
    [
      'a name for an address',
      ca.issue({ san: 'DNS:api.test' }),
      '127.0.0.1',
      trusting,
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ],
    ['expired', ca.issue({ san: 'DNS:api.test', days: -1 }), 'api.test', trusting, 'CERT_HAS_EXPIRED'],
    [
      'an unknown authority',
      stranger.issue({ san: 'DNS:api.test' }),
      'api.test',
      trusting,
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ],
    [
      'no public authority',
      ca.issue({ san: 'DNS:api.test' }),
      'api.test',
      '',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ],
    [
      'for clients',
      ca.issue({ san: 'DNS:api.test', usage: 'clientAuth' }),
      'api.test',
      trusting,
      'INVALID_PURPOSE',
    ],
  ] as const satisfies [string, Issued, string, string, string][]) {
    const origin = await tlsOrigin(t, issued)
    const response = await asked(t, origin.port, host, entry)
    t.equal(response.status, 502, what)
    t.match(response.fields['proxy-status'], 'error=tls_certificate_error')
    t.match(response.body, 'origins[0].forward')
    t.match(response.body, code)
    t.equal(await origin.heard(), '', 'the origin saw no byte')
  }
})

t.test('an upstream that does not speak TLS is 502, and one that never answers 504', async t => {
  const plain = createServer(socket => {
    socket.on('error', () => {}).resume()
    socket.end('HTTP/1.1 200 OK\r\n\r\n')
  })
  await new Promise<void>(resolve => plain.listen(0, '127.0.0.1', resolve))
  t.teardown(() => plain.close())
  const address = plain.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const response = await asked(t, address.port, 'api.test', '')
  t.equal(response.status, 502)
  t.match(response.fields['proxy-status'], 'error=tls_protocol_error')

  const silent = await rawOrigin(t)
  const yaml = `origins: [{ path: /, forward: "https://api.test:${silent.port}" }]\nlimits: { connect_timeout: 50ms }`
  const proxy = await testProxy(t, yaml, LOOPBACK)
  const client = await rawClient(t, proxy.port)
  client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  const late = await readResponse(client)
  t.equal(late.status, 504)
  t.match(late.fields['proxy-status'], 'error=connection_timeout')
  t.match(await (await silent.accept()).outcome(), /end|reset/, 'and the connection is closed')

  const gone = await rawClient(t, (await testProxy(t, yaml.replace('50ms', '1h'), LOOPBACK)).port)
  gone.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  const waiting = await silent.accept()
  gone.destroy()
  t.match(await waiting.outcome(), /end|reset/, 'as it is when the client does not wait')
})

t.test('a request that was received over TLS is forwarded as such', { skip }, async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(
    t,
    `origins: [{ path: /, forward: "http://${origin.authority}", forwarded: forwarded }]`,
    { tls: true },
  )
  const client = await proxy.connectTls()
  client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  const peer = await origin.accept()
  t.match(await peer.until('\r\n\r\n'), '\r\nForwarded: for=127.0.0.1;host=h;proto=https\r\n')
})

for (const leave of ['end', 'destroy'] as const) {
  t.test(
    `a GET on a reused connection that dies unanswered is sent once more: ${leave} (RFC 9112 §9.3.1)`,
    { skip },
    async t => {
      const ca = Authority.make(t.testdir())
      const origin = await tlsOrigin(t, ca.issue({ san: 'DNS:api.test' }))
      const yaml = `origins: [{ path: /, forward: "https://api.test:${origin.port}", ca: ${ca.certFile} }]`
      const proxy = await testProxy(t, yaml, LOOPBACK)
      const client = await rawClient(t, proxy.port)
      client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(OK)
      t.equal((await readResponse(client)).status, 200)
      client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
      await peer.until('\r\n\r\n')
      peer[leave]()
      const other = await origin.accept()
      await other.until('\r\n\r\n')
      other.write(OK)
      t.equal((await readResponse(client)).status, 200)
      t.equal(origin.hellos.length, 2)
    },
  )
}
