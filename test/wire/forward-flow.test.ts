/** Content is forwarded as fast as the slower side reads it, and is never accumulated. */
import t from 'tap'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { drain, writeBulk, bulkDigest } from '../kit/peers/bulk.js'
import { until } from '../kit/until.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const TOTAL = 40 * 1024 * 1024
/** The most that may be in transit: the system's buffers of both connections, and little in the proxy. */
const MOST_UNDER_WAY = 24 * 1024 * 1024
const DIGEST = bulkDigest(TOTAL)

t.test('a client that does not read pauses the origin', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  await client.until('\r\n\r\n')
  client.socket.pause()
  const poured = writeBulk(peer.socket, TOTAL)
  t.ok((await poured.stalled()) < MOST_UNDER_WAY, `stalled after ${poured.taken()} bytes`)
  t.equal(await drain(client.socket, TOTAL), DIGEST, 'and nothing is lost')
  t.match(await proxy.event('close'), { close_reason: 'complete', bytes_down: TOTAL })
})

t.test('an origin that does not read pauses the client', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.socket.pause()
  const poured = writeBulk(client.socket, TOTAL)
  t.ok((await poured.stalled()) < MOST_UNDER_WAY, `stalled after ${poured.taken()} bytes`)
  t.equal(await drain(peer.socket, TOTAL), DIGEST, 'and nothing is lost')
  peer.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 201 /)
  t.match(await proxy.event('close'), { close_reason: 'complete', bytes_up: TOTAL })
})

t.test('a client that stops reading and disconnects ends its request at the origin', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  await client.until('\r\n\r\n')
  client.socket.pause()
  await writeBulk(peer.socket, TOTAL).stalled()
  client.reset()
  await peer.closed()
  t.match(await proxy.event('close'), { status: 200, close_reason: 'client_gone' })
})

/** limits.body_idle, held. */
const IDLE_MS = 7_654_321

for (const [way, targetOf, yamlOf] of [
  ['http://', (authority: string) => `http://${authority}/`, () => ''],
  ['origins', () => '/', (authority: string) => `origins: [{ path: /, forward: "http://${authority}" }]\n`],
  ['a parent', () => 'http://a.test/', (authority: string) => `parent: { url: "http://${authority}" }\n`],
] as const) {
  t.test(`an origin that takes nothing of an upload for limits.body_idle is 504, ${way}`, async t => {
    const timers = pauseTimers(t, IDLE_MS)
    const origin = await rawOrigin(t)
    const yaml = `${LOOPBACK_RULES}limits: { body_idle: ${IDLE_MS}ms }\n${yamlOf(origin.authority)}`
    const proxy = await testProxy(t, yaml)
    const client = await rawClient(t, proxy.port)
    client.write(`PUT ${targetOf(origin.authority)} HTTP/1.1\r\nHost: x\r\nContent-Length: ${TOTAL}\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    t.equal(timers.running, 0, 'the client is to send')
    peer.socket.pause()
    const poured = writeBulk(client.socket, TOTAL)
    await poured.stalled()
    // The system may accept more some time after it has accepted nothing.
    const isRunning = () => timers.running === 1
    await until('the time of an upstream that takes nothing', isRunning, { seen: () => timers.running })
    t.equal(timers.running, 1)
    const before = timers.set
    peer.socket.resume()
    await peer.until(8 * 1024 * 1024)
    peer.socket.pause()
    await poured.stalled()
    const isAnother = () => isRunning() && timers.set > before
    await until('another time, as something was taken', isAnother, { seen: () => timers.set - before })
    t.equal(timers.running, 1)
    t.ok(timers.set > before, 'something was taken, and the time is another')
    await timers.fire()
    const head = await client.until('\r\n\r\n')
    t.match(head, /^HTTP\/1\.1 504 Sluice: request not read by upstream in time\r\n/)
    t.match(head, 'Proxy-Status: sluice;error=connection_write_timeout')
    t.match(await client.until(Number(/Content-Length: (\d+)/.exec(head)?.[1])), 'limits.body_idle')
    t.match(await proxy.event('close'), {
      status: 504,
      close_reason: 'failed',
      error: 'connection_write_timeout',
      reason: 'body_idle',
      address: origin.authority,
    })
    peer.socket.resume()
    await peer.untilEnd()
    t.equal(timers.running, 0)
    const metrics = await (await fetch(`http://127.0.0.1:${proxy.adminPort}/metrics`)).text()
    t.match(metrics, '\nsluice_limit_rejections_total{limit="body_idle"} 1\n')
  })
}
