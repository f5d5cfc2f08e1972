/** Rates: requests a second, bytes an hour, and slow request content. */
import t from 'tap'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { refusal } from '../kit/proxies/refusal.js'
import { limited } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'

t.test('requests_per_second: 429 until the next token is available', async t => {
  const { proxy, clock, rejected } = await limited(t, 'requests_per_second: 2')
  const client = await rawClient(t, proxy.port)
  const ask = () => client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  for (let i = 0; i < 2; i++) {
    ask()
    t.equal((await readResponse(client)).status, 200)
  }
  ask()
  const body =
    'This client has sent more requests than limits.requests_per_second allows (2 a second, as many in one burst).'
  const expected = refusal('429', 'too many requests of this client', body, false, 1)
  t.equal(await client.until(expected.length), expected)
  clock.advance(500)
  ask()
  t.equal((await readResponse(client)).status, 200)
  t.same(await rejected(), { requests_per_second: 1 })
})

t.test('bytes_per_hour: tunnels end, and later requests are 429 until the hour is over', async t => {
  const { proxy, clock, ledger } = await limited(t, 'bytes_per_hour: 1KiB')
  const origin = await rawOrigin(t)
  // Bytes are counted once a second, together with the deadlines: after this the next count is a second away.
  const silent = await rawClient(t, proxy.port)
  clock.advance(10_000)
  t.equal(await silent.untilEnd(), '')
  const [busy, idle] = [await openTunnel(t, proxy, origin), await openTunnel(t, proxy, origin)]
  busy.client.write('x'.repeat(600))
  await busy.upstream.until(600)
  busy.upstream.write('x'.repeat(424))
  await busy.client.until(424)
  clock.advance(1000)
  t.equal(await busy.client.untilEnd(), '')
  t.equal(await idle.client.untilEnd(), '')
  for (const count of [1, 2]) {
    t.match(await proxy.event('close', count), { kind: 'connect', status: 200, close_reason: 'bytes' })
  }
  clock.advance(59_000)
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const body =
    'This client has passed as many bytes as limits.bytes_per_hour allows (1KiB); its tunnels were closed.'
  const expected = refusal('429', 'this client has used up its bytes', body, false, 3541)
  t.equal(await client.until(expected.length), expected)
  clock.advance(3_541_000)
  await openTunnel(t, proxy, origin)
  t.equal(ledger.held('tunnels'), 1)
})

t.test('bytes_per_hour: requests in progress are finished, and counted', async t => {
  const { proxy } = await limited(t, 'bytes_per_hour: 1KiB')
  const origin = await rawOrigin(t)
  const client = await rawClient(t, proxy.port)
  client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 24\r\n\r\n`)
  client.write('x'.repeat(24))
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  await upstream.until(24)
  upstream.write(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n${'y'.repeat(1000)}`)
  t.equal((await readResponse(client)).body.length, 1000)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.match(await readResponse(client), { status: 429, fields: { 'retry-after': '3600' } })
})

t.test('body_min_rate: content that arrives too slowly is 408 (RFC 9110 §15.5.9)', async t => {
  const clock = new ManualClock()
  const limits = 'limits: { body_min_rate: 1GiB, body_idle: 7s }\n'
  const proxy = await testProxy(t, LOOPBACK_RULES + limits, { now: clock.now })
  const origin = await rawOrigin(t)
  const client = await rawClient(t, proxy.port)
  client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n`)
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  // Each byte is sent when the previous one has arrived: no pause, only too little.
  void (async () => {
    for (;;) {
      client.write('x')
      await upstream.until(1)
      clock.advance(10)
    }
  })().catch(() => {})
  const response = await readResponse(client)
  t.equal(response.status, 408)
  t.equal(response.fields['connection'], 'close')
  t.match(response.body, 'limits.body_min_rate allows (1GiB a second over limits.body_idle)')
  t.match(await proxy.event('close'), { status: 408, close_reason: 'failed', reason: 'body_min_rate' })
})
