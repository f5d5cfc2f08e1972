/** While a tunnel waits for its hello: data from upstream, time limits, and clients that leave. */
import t from 'tap'
import { acceptedSockets, untilRead } from '../kit/peers/until-read.js'
import { clientHello } from '../kit/peers/client-hello.js'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { ALERT, checkCut, close, verifiedTunnels, VERIFYING } from '../kit/proxies/setups.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const FINISHED = 'what TLS goes on to say'

t.test('the data of a server that speaks first are passed on after the hello', async t => {
  const { open } = await verifiedTunnels(t)
  const { client, upstream } = await open()
  upstream.write(Buffer.alloc(32 << 20, 'y'))
  await untilStable(() => upstream.socket.writableLength)
  t.equal(client.received, '')
  t.ok(upstream.socket.writableLength > 0, 'nor is all of it taken')
  client.write(clientHello('a.test'))
  t.equal((await client.until(32 << 20)).length, 32 << 20)
  close({ client, upstream })
})

t.test('an end or a reset received from upstream meanwhile is passed on after the hello', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const ended = await open()
  ended.upstream.write('bye')
  ended.upstream.end()
  await turns()
  ended.client.write(clientHello('a.test'))
  t.equal(await ended.client.untilEnd(), 'bye')
  t.equal((await ended.upstream.until(1)).length, 1)
  ended.client.end()
  t.match(await proxy.event('close'), { close_reason: 'complete' })
  const reset = await open()
  reset.upstream.reset()
  await turns()
  reset.client.write(clientHello('a.test'))
  t.equal(await reset.client.outcome(), 'reset')
  t.match(await proxy.event('close', 2), { close_reason: 'upstream_reset' })
  await proxy.drain()
})

t.test('limits.header_timeout applies to a hello', async t => {
  const clock = new ManualClock()
  const limits = 'limits: { header_timeout: 7s }\n'
  const { proxy, open } = await verifiedTunnels(t, VERIFYING + limits, { now: clock.now })
  const slow = await open()
  const silent = await open()
  clock.advance(6_999)
  slow.client.write(clientHello('a.test').subarray(0, 20))
  const passed = await open()
  passed.client.write(clientHello('a.test'))
  await passed.upstream.until(1)
  passed.upstream.write('answer')
  await passed.client.until('answer')
  t.equal(slow.client.socket.readyState, 'open')
  clock.advance(1)
  await checkCut(t, slow, '')
  await checkCut(t, silent, '')
  for (const count of [1, 2]) {
    t.match(await proxy.event('close', count), { close_reason: 'server_name', reason: 'sni_timeout' })
  }
  clock.advance(60_000)
  const other = await open()
  passed.client.write(FINISHED)
  await passed.upstream.until(FINISHED)
  t.equal(passed.client.socket.readyState, 'open', 'a hello that came has no time-out')
  close(passed)
  close(other)
})

t.test('a client that does not close after the alert is closed at its deadline', async t => {
  const clock = new ManualClock()
  const { proxy, open } = await verifiedTunnels(t, `${VERIFYING}limits: { header_timeout: 7s }\n`, {
    now: clock.now,
  })
  const { client } = await open()
  client.write(clientHello('b.test'))
  t.equal(await client.untilEnd(), ALERT)
  clock.advance(7_000)
  t.match(await proxy.event('close'), { reason: 'sni_mismatch', server_name: 'b.test' })
  await proxy.drain()
})

t.test('limits.tunnel_idle and tunnel_lifetime run from the 200', async t => {
  const clock = new ManualClock()
  const limits = 'limits: { header_timeout: 1m, tunnel_idle: 10s, tunnel_lifetime: 25s }\n'
  const acceptedSocket = acceptedSockets(t)
  const { proxy, open } = await verifiedTunnels(t, VERIFYING + limits, { now: clock.now })
  const hello = clientHello('a.test')
  const idle = await open()
  const slow = await open()
  const passed = await open()
  for (const at of [0, 1, 2]) {
    clock.advance(at === 2 ? 6_999 : 9_000)
    slow.client.write(hello.subarray(at, at + 1))
    if (at < 2) passed.client.write(hello.subarray(at, at + 1))
    else passed.client.write(hello.subarray(at))
    if (at === 2) await passed.upstream.until(hello.length)
    for (const { client } of [slow, passed]) {
      await untilRead(client.socket, await acceptedSocket(client.socket))
    }
  }
  await checkCut(t, idle, '')
  t.match(await proxy.event('close'), { close_reason: 'idle', reason: undefined })
  t.equal(slow.client.socket.readyState, 'open')
  clock.advance(1)
  await checkCut(t, slow, '')
  t.equal(await passed.client.untilEnd(), '')
  for (const count of [2, 3]) t.match(await proxy.event('close', count), { close_reason: 'lifetime' })
  await passed.upstream.untilEnd()
})

t.test('a client that ends or disconnects before its hello is complete leaves nothing open', async t => {
  const { proxy, open } = await verifiedTunnels(t)
  const half = clientHello('a.test').subarray(0, 20)
  const ended = await open('a.test', half)
  ended.client.end()
  await checkCut(t, ended, ALERT)
  t.match(await proxy.event('close'), { close_reason: 'server_name', reason: 'sni_missing' })
  const silent = await open()
  silent.client.end()
  await checkCut(t, silent, '')
  t.match(await proxy.event('close', 2), { level: 'info', close_reason: 'client_gone', reason: undefined })
  const reset = await open('a.test', half)
  reset.client.reset()
  t.equal(await reset.upstream.untilEnd(), '')
  t.match(await proxy.event('close', 3), { close_reason: 'client_reset', reason: undefined })
  await proxy.drain()
})

t.test('a drain waits for a hello until its deadline', async t => {
  const finishing = await verifiedTunnels(t)
  const { client, upstream } = await finishing.open()
  let drained = false
  const drain = finishing.proxy.drain().then(() => {
    drained = true
  })
  await turns()
  client.write(clientHello('a.test'))
  await upstream.until(1)
  t.equal(drained, false, 'the tunnel that the hello opens is waited for, too')
  client.end()
  upstream.end()
  await drain

  const stopped = await verifiedTunnels(t, VERIFYING.replace('1h', '0s'))
  const waiting = await stopped.open('a.test', clientHello('a.test').subarray(0, 20))
  await turns()
  await stopped.proxy.drain()
  await checkCut(t, waiting, '')
  t.match(await stopped.proxy.event('close'), { close_reason: 'shutdown', reason: undefined })
})

t.test('the upstream connection is closed, however the wait ends', async t => {
  const origin = await rawOrigin(t)
  const dial = dialled(toLoopback(origin.port))
  const proxy = await testProxy(t, VERIFYING, {
    lookup: async () => ['127.0.0.1'],
    connector: dial.connector,
  })
  for (const bytes of [clientHello('b.test'), clientHello(), Buffer.from('GET /')]) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    await client.until('\r\n\r\n')
    client.write(bytes)
    await client.untilEnd()
    client.end()
  }
  await proxy.event('close', 3)
  t.same(
    dial.sockets.map(({ destroyed, bytesWritten }) => [destroyed, bytesWritten]),
    [
      [true, 0],
      [true, 0],
      [true, 0],
    ],
  )
})
