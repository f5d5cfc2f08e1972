/** connect.sni if the origin requests a second TLS hello: the name in that one decides (RFC 8446 §4.1.4). */
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { connect as tlsConnect, createServer } from 'node:tls'
import { Authority } from '../kit/peers/authority.js'
import { clientHello } from '../kit/peers/client-hello.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import {
  CHANGE_CIPHER_SPEC,
  earlyData,
  FATAL_ALERT,
  RETRY_REQUEST,
  SERVER_HELLO,
} from '../kit/peers/server-hello.js'
import { turns } from '../kit/peers/until-stable.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { ALERT, close, verifiedTunnels, type VerifiedTunnels, VERIFYING } from '../kit/proxies/setups.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const HELLO = clientHello('a.test')

const latin1 = (bytes: Buffer) => bytes.toString('latin1')

/** A tunnel whose origin has requested a second hello. */
async function retried({ open }: VerifiedTunnels) {
  const tunnel = await open('a.test', HELLO)
  await tunnel.upstream.until(HELLO.length)
  tunnel.upstream.write(RETRY_REQUEST)
  await tunnel.client.until(RETRY_REQUEST.length)
  return tunnel
}

t.test('a second hello for the host opens the tunnel, with all bytes before it', async t => {
  const tunnels = await verifiedTunnels(t)
  for (const before of [[], [CHANGE_CIPHER_SPEC], [earlyData(5000), CHANGE_CIPHER_SPEC, earlyData(1)]]) {
    const { client, upstream } = await retried(tunnels)
    const bytes = Buffer.concat([...before, clientHello('A.Test')])
    for (const byte of bytes.subarray(0, -1)) client.write(Uint8Array.of(byte))
    await turns()
    t.equal(upstream.received, '', 'held until it is whole')
    client.write(bytes.subarray(-1))
    t.equal(await upstream.until(bytes.length), latin1(bytes))
    upstream.write(SERVER_HELLO)
    t.equal(await client.until(SERVER_HELLO.length), latin1(SERVER_HELLO))
    client.end()
    t.equal(await upstream.untilEnd(), '')
    upstream.end()
    t.equal(await client.untilEnd(), '')
  }
  t.match(await tunnels.proxy.event('close', 3), {
    close_reason: 'complete',
    bytes_up: HELLO.length + clientHello('A.Test').length + 5005 + CHANGE_CIPHER_SPEC.length + 6,
    bytes_down: RETRY_REQUEST.length + SERVER_HELLO.length,
  })
  await tunnels.proxy.drain()
})

t.test('a second hello that is not for the host is refused like a first one', async t => {
  const tunnels = await verifiedTunnels(t)
  const table: [bytes: Buffer, told: string, event: Record<string, unknown>][] = [
    [clientHello('b.test'), ALERT, { reason: 'sni_mismatch', server_name: 'b.test' }],
    [
      Buffer.concat([CHANGE_CIPHER_SPEC, earlyData(9), clientHello('b.test')]),
      ALERT,
      { reason: 'sni_mismatch' },
    ],
    [clientHello(), ALERT, { reason: 'sni_missing' }],
    [FATAL_ALERT, '', { reason: 'sni_not_tls' }],
    [Buffer.concat([CHANGE_CIPHER_SPEC, FATAL_ALERT, HELLO]), '', { reason: 'sni_not_tls' }],
    [Buffer.from('GET / HTTP/1.1\r\n'), '', { reason: 'sni_not_tls' }],
    [SERVER_HELLO, '', { reason: 'sni_not_tls' }],
    [Buffer.concat(Array.from({ length: 5 }, () => earlyData(2 ** 14))), '', { reason: 'sni_too_large' }],
  ]
  for (const [count, [bytes, told, event]] of table.entries()) {
    const { client, upstream } = await retried(tunnels)
    client.write(bytes)
    t.equal(await client.untilEnd(), told)
    client.end()
    t.equal(await upstream.untilEnd(), '', 'the origin saw the first hello alone')
    upstream.end()
    t.match(await tunnels.proxy.event('close', count + 1), {
      level: 'warn',
      close_reason: 'server_name',
      bytes_up: HELLO.length,
      bytes_down: RETRY_REQUEST.length,
      ...event,
    })
  }
  await tunnels.proxy.drain()
})

t.test('a second hello that was sent early is held until it is requested', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const { client, upstream } = await open('a.test', Buffer.concat([HELLO, clientHello('b.test')]))
  t.equal(await upstream.until(HELLO.length), latin1(HELLO))
  await turns()
  t.equal(upstream.received, '')
  upstream.write(RETRY_REQUEST)
  t.equal(await client.untilEnd(), latin1(RETRY_REQUEST) + ALERT)
  client.end()
  t.equal(await upstream.untilEnd(), '')
  t.match(await proxy.event('close'), { reason: 'sni_mismatch', server_name: 'b.test' })
  await proxy.drain()
})

t.test('there is no third hello: a second request is passed on unchanged', async t => {
  const tunnels = await verifiedTunnels(t)
  const { client, upstream } = await retried(tunnels)
  client.write(HELLO)
  await upstream.until(HELLO.length)
  upstream.write(RETRY_REQUEST)
  t.equal(await client.until(RETRY_REQUEST.length), latin1(RETRY_REQUEST))
  client.write('anything')
  t.equal(await upstream.until(8), 'anything')
  close({ client, upstream })
})

t.test('limits.header_timeout also applies to the second hello', async t => {
  const clock = new ManualClock()
  const yaml = `${VERIFYING}limits: { header_timeout: 7s, tunnel_idle: 1m }\n`
  const { proxy, open } = await verifiedTunnels(t, yaml, { now: clock.now })
  const { client, upstream } = await open('a.test', HELLO)
  await upstream.until(HELLO.length)
  clock.advance(30_000)
  upstream.write(RETRY_REQUEST)
  t.equal(await client.until(RETRY_REQUEST.length), latin1(RETRY_REQUEST), 'an origin may be slow')
  clock.advance(6_999)
  client.write(CHANGE_CIPHER_SPEC)
  await turns()
  t.equal(client.socket.readyState, 'open')
  clock.advance(1)
  t.equal(await client.untilEnd(), '')
  t.match(await proxy.event('close'), { close_reason: 'server_name', reason: 'sni_timeout' })
  await upstream.untilEnd()
})

t.test('an origin that does not answer is waited for until the tunnel is idle', async t => {
  const clock = new ManualClock()
  const yaml = `${VERIFYING}limits: { header_timeout: 7s, tunnel_idle: 1m }\n`
  const { proxy, open } = await verifiedTunnels(t, yaml, { now: clock.now })
  const { client, upstream } = await open('a.test', HELLO)
  await upstream.until(HELLO.length)
  clock.advance(59_999)
  await turns()
  t.equal(client.socket.readyState, 'open')
  clock.advance(1)
  t.equal(await client.untilEnd(), '')
  t.match(await proxy.event('close'), { close_reason: 'idle', bytes_up: HELLO.length })
  await upstream.untilEnd()
})

t.test('ends and resets are passed on while the response or the second hello is waited for', async t => {
  const tunnels = await verifiedTunnels(t)
  const answering = async () => {
    const tunnel = await tunnels.open('a.test', HELLO)
    await tunnel.upstream.until(HELLO.length)
    return tunnel
  }
  const closed = async (count: number, reason: string) =>
    t.match(await tunnels.proxy.event('close', count), { close_reason: reason })

  const ended = await answering()
  ended.client.end()
  t.equal(await ended.upstream.untilEnd(), '')
  ended.upstream.write('late')
  t.equal(await ended.client.until(4), 'late')
  ended.upstream.end()
  t.equal(await ended.client.untilEnd(), '')
  await closed(1, 'complete')

  const held = await answering()
  held.client.write('more')
  held.client.end()
  await turns()
  held.upstream.write('late')
  t.equal(await held.upstream.untilEnd(), 'more')
  held.upstream.end()
  t.equal(await held.client.untilEnd(), 'late')
  await closed(2, 'complete')

  const silent = await answering()
  silent.upstream.end()
  t.equal(await silent.client.untilEnd(), '')
  silent.client.write('more')
  silent.client.end()
  t.equal(await silent.upstream.untilEnd(), 'more')
  await closed(3, 'complete')

  for (const [at, open] of [answering, () => retried(tunnels)].entries()) {
    const reset = await open()
    reset.client.reset()
    t.equal(await reset.upstream.outcome(), 'reset')
    await closed(4 + at, 'client_reset')
  }
  const gone = await answering()
  gone.upstream.reset()
  t.equal(await gone.client.outcome(), 'reset')
  await closed(6, 'upstream_reset')

  const late = await retried(tunnels)
  late.upstream.write(FATAL_ALERT)
  late.upstream.end()
  await turns()
  late.client.write(HELLO)
  t.equal(await late.client.untilEnd(), latin1(FATAL_ALERT))
  t.equal(await late.upstream.until(HELLO.length), latin1(HELLO))
  late.client.end()
  await closed(7, 'complete')
  await tunnels.proxy.drain()
})
t.test('a handshake of real TLS with a second hello succeeds', async t => {
  const ca = Authority.make(t.testdir())
  const { cert, key } = ca.issue({ san: 'DNS:a.test' })
  const server = createServer({ cert, key, ecdhCurve: 'P-256' }, socket => socket.end('hello there'))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  const { port } = server.address() as AddressInfo
  const proxy = await testProxy(t, VERIFYING, { lookup: async () => ['127.0.0.1'] })
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT a.test:${port} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  client.socket.removeAllListeners('data')
  // The first key share is for a group that the server does not have.
  const tls = tlsConnect({
    socket: client.socket,
    servername: 'a.test',
    ca: ca.cert,
    ecdhCurve: 'X25519:P-256',
  })
  const answer = new RawPeer(tls)
  t.equal(await answer.until(11), 'hello there')
  t.equal(tls.getProtocol(), 'TLSv1.3')
  t.match(tls.getEphemeralKeyInfo(), { name: 'prime256v1' })
  answer.end()
  await answer.untilEnd()
  t.match(await proxy.event('close'), { close_reason: 'complete', reason: undefined })
  await proxy.drain()
})
