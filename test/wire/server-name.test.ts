/** connect.sni and a rule's sni: a tunnel must begin with TLS for its host, or nothing is sent to the origin. */
import { once } from 'node:events'
import t from 'tap'
import { connect as tlsConnect } from 'node:tls'
import { clientHello, handshake, helloBody, paddedHello, records } from '../kit/peers/client-hello.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { turns } from '../kit/peers/until-stable.js'
import { ALERT, checkCut, close, verifiedTunnels, VERIFYING } from '../kit/proxies/setups.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const FINISHED = 'what TLS goes on to say'

const latin1 = (bytes: Buffer) => bytes.toString('latin1')

t.test('a hello for the host opens the tunnel, and arrives unchanged (RFC 6066 §3)', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  for (const [host, name] of [
    ['a.test', 'a.test'],
    ['A.Test.', 'a.tEST'],
  ] as const) {
    const { client, upstream } = await open(host)
    const hello = latin1(clientHello(name))
    client.write(Buffer.from(hello, 'latin1'))
    t.equal(await upstream.until(hello.length), hello)
    upstream.write('answer')
    t.equal(await client.until(6), 'answer')
    client.write(FINISHED)
    t.equal(await upstream.until(FINISHED.length), FINISHED)
    client.end()
    t.equal(await upstream.untilEnd(), '', 'half-closed like any tunnel')
    upstream.end()
  }
  t.match(await proxy.event('close', 2), {
    level: 'info',
    close_reason: 'complete',
    reason: undefined,
    server_name: undefined,
    bytes_up: clientHello('a.test').length + FINISHED.length,
    bytes_down: 6,
  })
  await proxy.drain()
})

t.test('a hello for another name is refused with an alert (RFC 6066 §3)', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  for (const name of ['b.test', 'test', 'x.a.test', 'a.test.', 'a.test\0', 'a.test:443', '127.0.0.1']) {
    const tunnel = await open()
    const closes = proxy.events.filter(({ event }) => event === 'close').length
    tunnel.client.write(clientHello(name))
    await checkCut(t, tunnel, ALERT)
    const close = await proxy.event('close', closes + 1)
    t.equal(close['server_name'], name)
    t.match(close, {
      level: 'warn',
      handler: 'tunnel',
      host: 'a.test',
      status: 200,
      close_reason: 'server_name',
      reason: 'sni_mismatch',
      error: undefined,
      bytes_up: 0,
      bytes_down: 0,
    })
  }
  await proxy.drain()
})

t.test('the name is logged in no more than 255 characters', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const tunnel = await open()
  tunnel.client.write(clientHello(`${'x'.repeat(254)}yz`))
  await checkCut(t, tunnel, ALERT)
  t.equal((await proxy.event('close'))['server_name'], `${'x'.repeat(254)}y`)
})

t.test('a hello without a name is refused with an alert', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const tunnel = await open()
  tunnel.client.write(clientHello())
  await checkCut(t, tunnel, ALERT)
  t.match(await proxy.event('close'), { reason: 'sni_missing', server_name: undefined })
  await proxy.drain()
})

t.test('an address as host never matches (RFC 6066 §3)', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const named = await open('127.0.0.1')
  named.client.write(clientHello('127.0.0.1'))
  await checkCut(t, named, ALERT)
  t.match(await proxy.event('close'), { reason: 'sni_mismatch', server_name: '127.0.0.1' })
  const nameless = await open('127.0.0.1')
  nameless.client.write(clientHello())
  await checkCut(t, nameless, ALERT)
  t.match(await proxy.event('close', 2), { reason: 'sni_missing' })
})

t.test('data other than TLS are refused at their first byte', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  for (const [count, bytes] of ['G', 'SSH-2.0-x\r\n', '\x16\x03\x01\x00\x00', '\r\n'].entries()) {
    const tunnel = await open()
    tunnel.client.write(bytes)
    await checkCut(t, tunnel, '')
    t.match(await proxy.event('close', count + 1), { close_reason: 'server_name', reason: 'sni_not_tls' })
  }
  await proxy.drain()
})

t.test('a hello may arrive a byte at a time, and in many records', async t => {
  const { open } = await verifiedTunnels(t)
  const { client, upstream } = await open()
  const hello = clientHello('a.test')
  const split = records(hello.subarray(5), 7)
  for (const byte of split) {
    t.equal(upstream.received, '')
    client.write(Uint8Array.of(byte))
    await turns(2)
  }
  t.equal(await upstream.until(split.length), latin1(split))
  close({ client, upstream })
})

t.test('a hello may arrive together with the CONNECT, and more after it', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const hello = clientHello('a.test')
  const behind = Buffer.concat([hello, Buffer.alloc(200_000, 'x')])
  const first = await open('a.test', behind)
  t.equal(await first.upstream.until(hello.length), latin1(hello))
  first.upstream.write('answer')
  t.equal(await first.upstream.until(behind.length - hello.length), latin1(behind.subarray(hello.length)))
  close(first)
  const part = await open('a.test', hello.subarray(0, 20))
  await turns()
  t.equal(part.upstream.received, '')
  part.client.write(hello.subarray(20))
  t.equal(await part.upstream.until(hello.length), latin1(hello))
  close(part)
  const wrong = await open('b.test', hello)
  await checkCut(t, wrong, ALERT)
  t.match(await proxy.event('close', 3), { reason: 'sni_mismatch', server_name: 'a.test' })
})

t.test('bytes after a refused hello do not prevent the alert', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const tunnel = await open()
  tunnel.client.write(clientHello('b.test'))
  tunnel.client.write(Buffer.alloc(4 << 20))
  tunnel.client.write(clientHello('a.test'))
  await checkCut(t, tunnel, ALERT)
  await proxy.drain()
})

t.test('a hello that is too large is refused, and the largest is not', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const largest = paddedHello('a.test', 32 * 1024)
  const passed = await open()
  passed.client.write(largest)
  t.equal(await passed.upstream.until(largest.length), latin1(largest))
  close(passed)
  const large = await open()
  large.client.write(paddedHello('a.test', 32 * 1024 + 1))
  await checkCut(t, large, '')
  t.match(await proxy.event('close', 2), { close_reason: 'server_name', reason: 'sni_too_large' })
  const announced = await open()
  announced.client.write(records(handshake(helloBody({ extensions: Buffer.alloc(1 << 20) }))).subarray(0, 9))
  await checkCut(t, announced, '')
  t.match(await proxy.event('close', 3), { reason: 'sni_too_large' })
})

t.test("a rule's sni goes before connect.sni", async t => {
  const addresses = 'ports: ["any"], addresses: ["127.0.0.0/8"]'
  const { open } = await verifiedTunnels(
    t,
    `
rules:
  rest: { hosts: ["*.test", "127.0.0.1"], ${addresses} }
  strict: { hosts: ["strict.test"], ${addresses}, sni: verify }
`,
  )
  const free = await open('free.test')
  free.client.write('SSH-2.0-x\r\n')
  t.equal(await free.upstream.until('\n'), 'SSH-2.0-x\r\n')
  close(free)
  const strict = await open('strict.test')
  strict.client.write('SSH-2.0-x\r\n')
  await checkCut(t, strict, '')

  const lifted = await verifiedTunnels(
    t,
    `
connect: { sni: verify }
rules:
  rest: { hosts: ["*.test"], ${addresses} }
  addresses: { hosts: ["127.0.0.1"], ${addresses}, sni: none }
`,
  )
  const address = await lifted.open('127.0.0.1')
  address.client.write('SSH-2.0-x\r\n')
  t.equal(await address.upstream.until('\n'), 'SSH-2.0-x\r\n')
  close(address)
  const name = await lifted.open('free.test')
  name.client.write('SSH-2.0-x\r\n')
  await checkCut(t, name, '')
})

t.test('http:// and its upgrades are not affected', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, VERIFYING)
  const client = await rawClient(t, proxy.port)
  client.write(
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  upstream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 101 /)
  client.write('\x81\x00')
  t.equal(await upstream.until(2), '\x81\x00')
  close({ client, upstream })
})

t.test('a TLS client receives the alert as such', async t => {
  const { open } = await verifiedTunnels(t)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const { client } = await open()
    client.socket.removeAllListeners('data')
    const tls = tlsConnect({ socket: client.socket, servername: 'b.test', maxVersion: version })
    const [error] = (await once(tls, 'error')) as [Error & { code?: string }]
    t.match(error.message, /unrecognized name/, version)
  }
})
