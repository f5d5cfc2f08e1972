import t from 'tap'
import { acceptedSockets, untilRead } from '../kit/peers/until-read.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { writeBulk } from '../kit/peers/bulk.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { turns } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`

t.test('limits.header_timeout ends a slow head with 408 (RFC 9110 §15.5.9)', async t => {
  const clock = new ManualClock()
  const environment = { now: clock.now, wallClock: WALL_CLOCK }
  const proxy = await testProxy(t, `${PATIENT}limits: { header_timeout: 7s }`, environment)
  const acceptedSocket = acceptedSockets(t)
  const client = await rawClient(t, proxy.port)
  const silent = await rawClient(t, proxy.port)
  client.write('GET /slow?secret HTTP/1.1\r\nHost:')
  for (const { socket } of [client, silent]) await untilRead(socket, await acceptedSocket(socket))
  clock.advance(7000)
  checkRefusal(t, await readResponse(client), { status: 408, close: true })
  t.equal(await client.untilEnd(), '')
  t.equal(await silent.untilEnd(), '', 'one that sent nothing is told nothing')
  await checkEvents(
    t,
    proxy,
    0,
    { kind: 'invalid', decision: 'deny', reason: 'request_timeout', method: 'GET', path: '/slow' },
    { status: 408, close_reason: 'refused', reason: 'request_timeout' },
  )
  client.end()
  silent.end()
  await proxy.drain()
})

t.test('limits.keepalive_idle closes an idle connection silently (RFC 9112 §9.5)', async t => {
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { keepalive_idle: 7s }`, { now: clock.now })
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  await readResponse(client)
  clock.advance(7000)
  t.equal(await client.untilEnd(), '')
  t.equal(await client.outcome(), 'end')
  client.end()
  await proxy.drain()
  t.equal(proxy.events.length, 2)
})

t.test('limits.body_idle ends content that stops arriving with 408, and the upstream request', async t => {
  const clock = new ManualClock()
  const environment = { now: clock.now, wallClock: WALL_CLOCK }
  const proxy = await testProxy(t, `${PATIENT}limits: { body_idle: 7s }`, environment)
  const origin = await rawOrigin(t)
  const client = await rawClient(t, proxy.port)
  client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n123`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n123')
  clock.advance(7000)
  checkRefusal(t, await readResponse(client), { status: 408, close: true })
  t.equal(await client.untilEnd(), '')
  t.equal(await peer.untilEnd(), '')
  await checkEvents(
    t,
    proxy,
    0,
    { kind: 'forward', decision: 'allow' },
    { status: 408, close_reason: 'failed', reason: 'request_timeout', bytes_up: 3 },
  )
  client.end()
  peer.end()
  await proxy.drain()
})

t.test(
  'limits.body_idle closes the connection of a client that reads nothing of its response, and logs it',
  async t => {
    const total = 40 * 1024 * 1024
    const clock = new ManualClock()
    const proxy = await testProxy(t, `${PATIENT}limits: { body_idle: 7s }`, { now: clock.now })
    const origin = await rawOrigin(t)
    const client = await rawClient(t, proxy.port)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
    await client.until('\r\n\r\n')
    client.socket.pause()
    await writeBulk(peer.socket, total).stalled()
    clock.advance(6999)
    await turns()
    t.equal(proxy.events.length, 1)
    clock.advance(1)
    await peer.closed()
    await checkEvents(
      t,
      proxy,
      0,
      { kind: 'forward', decision: 'allow' },
      { status: 200, close_reason: 'idle', error: 'http_request_error', reason: 'body_idle' },
    )
    const metrics = await (await fetch(`http://127.0.0.1:${proxy.adminPort}/metrics`)).text()
    t.match(metrics, '\nsluice_limit_rejections_total{limit="body_idle"} 1\n')
    client.socket.resume()
    await client.untilEnd()
    await proxy.drain()
  },
)

t.test('limits.body_idle closes it whether or not the client continues to send', async t => {
  const total = 40 * 1024 * 1024
  for (const rest of ['', '1\r\nb\r\n', '1\r\nb\r\n0\r\n\r\n']) {
    const clock = new ManualClock()
    const proxy = await testProxy(t, `${PATIENT}limits: { body_idle: 1h }`, { now: clock.now })
    const origin = await rawOrigin(t)
    const client = await rawClient(t, proxy.port)
    client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n`)
    client.write('1\r\na\r\n')
    const peer = await origin.accept()
    await peer.until('a\r\n')
    peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
    await client.until('\r\n\r\n')
    client.socket.pause()
    await writeBulk(peer.socket, total).stalled()
    client.write(rest)
    if (rest !== '') await peer.until('b\r\n')
    clock.advance(3_600_000)
    await peer.closed()
    const ended = { status: 200, close_reason: 'idle', reason: 'body_idle' }
    t.match(await proxy.event('close'), ended, JSON.stringify(rest))
    client.socket.resume()
    await client.untilEnd()
    await proxy.drain()
  }
})

t.test('an upstream that reads its content again does not extend that time', async t => {
  const total = 40 * 1024 * 1024
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { body_idle: 1h }`, { now: clock.now })
  const origin = await rawOrigin(t)
  const client = await rawClient(t, proxy.port)
  client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: ${total + 1}\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.socket.pause()
  await writeBulk(client.socket, total).stalled()
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
  await client.until('\r\n\r\n')
  client.socket.pause()
  await writeBulk(peer.socket, total).stalled()
  peer.socket.resume()
  await peer.until(total)
  clock.advance(3_600_000)
  await peer.closed()
  t.match(await proxy.event('close'), { status: 200, close_reason: 'idle', reason: 'body_idle' })
  client.socket.resume()
  await client.untilEnd()
  await proxy.drain()
})
