/** A client that speaks TLS to the proxy sees what one that does not sees, byte for byte. */
import { createServer, connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { acceptedSockets, untilRead } from '../kit/peers/until-read.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'
import { tlsClient } from '../kit/peers/tls-client.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { LOOPBACK_RULES, testProxy, type TestProxy } from '../kit/proxies/test-proxy.js'
import { endsPassApart, holdsUp, resetsPass } from '../kit/proxies/tunnel-bytes.js'
import { needs } from '../kit/processes/command.js'
import { until } from '../kit/until.js'

const skip = needs('openssl')
/** A drain that is through before this has run found nothing left open. */
const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`
const OPTIONS = 'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'
const EVERY_BYTE = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')

async function openTunnel(t: Test, proxy: TestProxy) {
  const origin = await rawOrigin(t)
  const client = await proxy.connectTls()
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  const upstream = await origin.accept()
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  return { client, upstream, authority: origin.authority }
}

t.test(
  'requests and their content are forwarded, one after another on one connection (RFC 9112 §9.3)',
  { skip },
  async t => {
    const proxy = await testProxy(t, PATIENT, { tls: true })
    const origin = await rawOrigin(t)
    const client = await proxy.connectTls()
    for (const body of ['first', EVERY_BYTE]) {
      client.write(
        `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
      const peer = origin.peers[0] ?? (await origin.accept())
      t.match(await peer.until('\r\n\r\n'), /^PUT \/ HTTP\/1\.1\r\n/)
      t.equal(await peer.until(body.length), body)
      peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      t.equal((await readResponse(client)).body, body)
    }
    t.match(await proxy.event('close', 2), { client_address: '127.0.0.1', status: 200 })
    client.end()
    t.equal(await client.untilEnd(), '')
    await proxy.drain()
  },
)

t.test('responses of Sluice itself are the same as without TLS', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true, wallClock: () => 0 })
  for (const request of [
    OPTIONS + OPTIONS,
    'GET / HTTP/1.1\r\nHost: h\r\n\r\n',
    'CONNECT a.example:443 HTTP/1.1\r\nHost: h\r\n\r\nbytes behind it',
    'GET /\r\n\r\n',
    'TRACE http://a.test/ HTTP/1.0\r\n\r\n',
  ]) {
    const [plain, secure] = [await rawClient(t, proxy.port), await proxy.connectTls()]
    const answers: string[] = []
    for (const client of [plain, secure]) {
      client.write(request)
      client.end()
      answers.push(await client.untilEnd())
    }
    t.match(answers[0], /^HTTP\/1\.1 \d{3} /)
    t.equal(answers[1], answers[0], JSON.stringify(request))
  }
  await proxy.drain()
})

t.test('CONNECT: TLS inside TLS, and every byte unchanged (RFC 9110 §9.3.6)', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  const { cert, key } = proxy.ca.issue({ san: 'DNS:origin.test' })
  const server = createServer({ cert, key }, socket => void socket.pipe(socket))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const outer = await proxy.connectTls()
  outer.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal(await outer.until('\r\n\r\n'), ESTABLISHED)
  outer.socket.removeAllListeners('data')
  const inner = connectTls({ socket: outer.socket, servername: 'origin.test', ca: proxy.ca.cert })
  t.teardown(() => inner.destroy())
  const peer = new RawPeer(inner)
  const text = EVERY_BYTE.repeat(1000)
  peer.write(text)
  t.equal(await peer.until(text.length), text)
  t.ok(inner.authorized)
  peer.end()
  t.equal(await peer.untilEnd(), '')
  await proxy.drain()
})

t.test('bytes sent together with the CONNECT arrive first, and once', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  const origin = await rawOrigin(t)
  const client = await proxy.connectTls()
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n${EVERY_BYTE}`)
  const peer = await origin.accept()
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  client.write('later')
  t.equal(await peer.until(EVERY_BYTE.length + 5), `${EVERY_BYTE}later`)
  client.end()
  peer.end()
  await proxy.drain()
})

t.test('the end of one direction keeps the other open (RFC 8446 §6.1)', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  await endsPassApart(t, proxy, () => openTunnel(t, proxy))
})

t.test('a reset on either side is passed on as a reset', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  await resetsPass(t, proxy, () => openTunnel(t, proxy))
})

t.test('content that ends early never looks complete', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  const origin = await rawOrigin(t)
  const client = await proxy.connectTls()
  client.write(`GET http://${origin.authority}/ HTTP/1.0\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  peer.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
  await client.until('abc')
  peer.end()
  t.equal(await client.outcome(), 'reset')
  await proxy.drain()
})

t.test('a side that does not read pauses the other one, and nothing is lost', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  await holdsUp(t, proxy, () => openTunnel(t, proxy), 32 << 20)
})

t.test(
  'a client that is still sending sees the response and not a reset (RFC 9112 §9.6)',
  { skip },
  async t => {
    const proxy = await testProxy(t, PATIENT, { tls: true })
    const client = await proxy.connectTls()
    client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n')
    client.write('x'.repeat(2_000_000))
    t.equal((await readResponse(client)).status, 404)
    client.write('x'.repeat(2_000_000))
    t.equal(await client.untilEnd(), '')
    client.end()
    t.equal(await client.outcome(), 'end')
    await proxy.drain()
  },
)

t.test('TLS 1.2 and 1.3 are supported, nothing older (RFC 8996 §5)', { skip }, async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { tls: true })
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const client = await tlsClient(t, proxy.tlsPort, {
      ca: proxy.ca.cert,
      minVersion: version,
      maxVersion: version,
    })
    t.equal(client.socket.getProtocol(), version)
    client.write(OPTIONS)
    t.equal((await readResponse(client)).status, 200)
  }
  const old = {
    ca: proxy.ca.cert,
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  } as const
  await t.rejects(tlsClient(t, proxy.tlsPort, old), { code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' })
  t.match(await proxy.event('tls_client_error'), {
    level: 'warn',
    client_address: '127.0.0.1',
    error: 'ERR_SSL_UNSUPPORTED_PROTOCOL',
  })
})

t.test('limits.header_timeout applies to the handshake, and again to the request head', { skip }, async t => {
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { header_timeout: 7s }\n`, {
    tls: true,
    now: clock.now,
  })
  const acceptedSocket = acceptedSockets(t)
  const slow = await rawClient(t, proxy.tlsPort)
  slow.write('\x16\x03\x01')
  await untilRead(slow.socket, await acceptedSocket(slow.socket))
  clock.advance(6_000)
  // In TLS 1.2 it is the server that is through with the handshake first.
  const client = await tlsClient(t, proxy.tlsPort, { ca: proxy.ca.cert, maxVersion: 'TLSv1.2' })
  const accepted = await acceptedSocket(client.socket)
  const before = accepted.bytesRead
  client.write('GET / HTTP/1.1\r\n')
  await until('the head to be read', () => accepted.bytesRead > before)
  clock.advance(1_000)
  t.equal(await slow.untilEnd(), '')
  slow.end()
  t.match(await proxy.event('tls_client_error'), { error: 'ERR_TLS_HANDSHAKE_TIMEOUT' })
  t.equal(client.received, '')
  clock.advance(6_000)
  t.equal((await readResponse(client)).status, 408)
  client.end()
  await proxy.drain()
})

t.test('a drain does not wait for handshakes, and finishes requests', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  const origin = await rawOrigin(t)
  const silent = await rawClient(t, proxy.tlsPort)
  const slow = await rawClient(t, proxy.tlsPort)
  slow.write('\x16\x03\x01')
  const idle = await proxy.connectTls()
  const busy = await proxy.connectTls()
  busy.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  const drained = proxy.drain()
  for (const client of [silent, slow, idle]) {
    t.equal(await client.untilEnd(), '')
    client.end()
  }
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
  const response = await readResponse(busy)
  t.equal(response.body, 'hi')
  t.equal(response.fields['connection'], 'close')
  busy.end()
  await drained
  t.equal(proxy.events.filter(({ event }) => event === 'tls_client_error').length, 0, 'we ended it ourselves')
})

t.test('a drain with nothing but a handshake ends at once', { skip }, async t => {
  const proxy = await testProxy(t, PATIENT, { tls: true })
  const client = await rawClient(t, proxy.tlsPort)
  await turns()
  await proxy.drain()
  t.equal(await client.untilEnd(), '', 'which it has ended')
  t.notOk(
    proxy.events.some(({ event }) => event === 'tls_client_error'),
    'and is no error of the client',
  )
})

t.test('the TLS listener is one of the proxy’s own, to which no request may lead', { skip }, async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { tls: true })
  const client = await proxy.connectTls()
  client.write(`GET http://127.0.0.1:${proxy.tlsPort}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal((await readResponse(client)).status, 508)
  client.write(`CONNECT localhost:${proxy.tlsPort} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal((await readResponse(client)).status, 403)
})
