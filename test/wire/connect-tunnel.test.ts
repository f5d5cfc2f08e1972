import t from 'tap'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { ESTABLISHED, openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { checkEvents } from '../kit/proxies/refusal.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { endsPassApart, holdsUp, resetsPass } from '../kit/proxies/tunnel-bytes.js'

/** For a drain that must have ended because nothing was open, before this time. */
const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`
const EVERY_BYTE = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')

t.test('the 2xx has no Content-Length and no Transfer-Encoding (RFC 9110 §9.3.6)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, PATIENT)
  for (const version of ['1.1', '1.0']) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${origin.authority} HTTP/${version}\r\nHost: h\r\n\r\n`)
    t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 200 Connection established\r\n\r\n')
    const peer = await origin.accept()
    await turns()
    t.equal(client.received, '')
    t.equal(peer.received, '', 'the origin sees nothing of the CONNECT')
    client.end()
    peer.end()
  }
  await proxy.drain()
})

t.test('passes every byte unchanged in both directions, including HTTP (RFC 9110 §9.3.6)', async t => {
  const proxy = await testProxy(t, PATIENT)
  const { client, upstream } = await openTunnel(t, proxy)
  for (const bytes of [
    EVERY_BYTE,
    'GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: h\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
    '\r\n\r\n',
    '\0',
  ]) {
    client.write(bytes)
    t.equal(await upstream.until(bytes.length), bytes)
    upstream.write(bytes)
    t.equal(await client.until(bytes.length), bytes)
  }
  client.end()
  upstream.end()
  await proxy.drain()
})

t.test('both events describe the tunnel', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, PATIENT)
  const { client, upstream } = await openTunnel(t, proxy, origin)
  client.write('12345')
  await upstream.until(5)
  upstream.write('123')
  await client.until(3)
  client.end()
  await upstream.untilEnd()
  upstream.end()
  await client.untilEnd()
  const subject = { kind: 'connect', method: 'CONNECT', host: '127.0.0.1', port: origin.port }
  await checkEvents(
    t,
    proxy,
    0,
    { ...subject, level: 'info', decision: 'allow', rule: 'local', dns_ms: undefined },
    {
      ...subject,
      handler: 'tunnel',
      status: 200,
      close_reason: 'complete',
      address: origin.authority,
      bytes_up: 5,
      bytes_down: 3,
      connect_ms: Number,
      duration_ms: Number,
      error: undefined,
    },
  )
})

t.test('bytes sent together with the CONNECT arrive first, and once', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, PATIENT)
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n\r\n${EVERY_BYTE}`)
  const peer = await origin.accept()
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  client.write('later')
  t.equal(await peer.until(EVERY_BYTE.length + 2 + 5), `\r\n${EVERY_BYTE}later`)
  client.end()
  peer.end()
  t.match(await proxy.event('close'), { bytes_up: EVERY_BYTE.length + 7 })
})

t.test('bytes sent while the connection is being established wait for it', async t => {
  const origin = await rawOrigin(t)
  type Answer = (addresses: readonly string[]) => void
  let asked = (_: Answer): void => {}
  const proxy = await testProxy(t, PATIENT, { lookup: () => new Promise(resolve => asked(resolve)) })
  // Fits into the buffer; exceeds its limit; exceeds the buffers of the sockets.
  for (const size of [1000, 100_000, 16 << 20]) {
    const asking = new Promise<Answer>(resolve => {
      asked = resolve
    })
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT a${size}.test:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    client.write('x'.repeat(size - 3))
    const answer = await asking
    await untilStable(() => client.socket.writableLength)
    client.write('end')
    answer(['127.0.0.1'])
    const peer = await origin.accept()
    t.equal(await peer.until(size), `${'x'.repeat(size - 3)}end`)
    t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
    client.end()
    t.equal(await peer.untilEnd(), '')
    peer.write('late')
    peer.end()
    t.equal(await client.untilEnd(), 'late')
  }
  t.match(await proxy.event('close', 3), { bytes_up: 16 << 20, bytes_down: 4, close_reason: 'complete' })
})

t.test('a server may speak first', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, PATIENT)
  const client = await rawClient(t, proxy.port)
  const greeted = origin.accept().then(peer => {
    peer.write('220 ready\r\n')
    return peer
  })
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal(await client.until('ready\r\n'), `${ESTABLISHED}220 ready\r\n`)
  client.end()
  ;(await greeted).end()
})

t.test('the end of one direction keeps the other open', async t => {
  const proxy = await testProxy(t, PATIENT)
  await endsPassApart(t, proxy, () => openTunnel(t, proxy))
})

t.test('a reset on either side is passed on as a reset', async t => {
  const proxy = await testProxy(t, PATIENT)
  await resetsPass(t, proxy, () => openTunnel(t, proxy))
})

t.test('data cut off by a reset never look complete', async t => {
  const proxy = await testProxy(t, PATIENT)
  const { client, upstream } = await openTunnel(t, proxy)
  client.socket.pause()
  upstream.write(Buffer.alloc(16 << 20))
  await untilStable(() => upstream.socket.writableLength)
  client.reset()
  t.equal(await upstream.outcome(), 'reset')
  await proxy.drain()
})

t.test('limits.tunnel_idle applies to both directions together', async t => {
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { tunnel_idle: 10s, keepalive_idle: 1d }`, {
    now: clock.now,
  })
  const busy = await openTunnel(t, proxy)
  for (const [from, to] of [
    ['client', 'upstream'],
    ['upstream', 'client'],
  ] as const) {
    const idle = await openTunnel(t, proxy)
    const pass = async (): Promise<void> => {
      busy[from].write('x')
      await busy[to].until(1)
    }
    // Also before it: a check between this and the byte must not find both directions idle.
    await pass()
    clock.advance(9_999)
    await pass()
    clock.advance(1)
    t.equal(await idle.client.untilEnd(), '')
    t.equal(await idle.upstream.untilEnd(), '')
    t.equal(busy.client.socket.readyState, 'open')
  }
  t.match(await proxy.event('close', 2), { close_reason: 'idle', bytes_up: 0, bytes_down: 0 })
  clock.advance(10_000)
  t.equal(await busy.client.untilEnd(), '')
  t.equal(await busy.upstream.untilEnd(), '')
  t.match(await proxy.event('close', 3), { close_reason: 'idle', bytes_up: 2, bytes_down: 2 })
})

t.test('a half-closed tunnel without data is idle too', async t => {
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { tunnel_idle: 10s }`, { now: clock.now })
  const { client, upstream } = await openTunnel(t, proxy)
  client.end()
  await upstream.untilEnd()
  clock.advance(10_000)
  t.equal(await client.untilEnd(), '')
  t.match(await proxy.event('close'), { close_reason: 'idle' })
  await proxy.drain()
})

t.test('limits.tunnel_lifetime ends a busy tunnel too', async t => {
  const clock = new ManualClock()
  const proxy = await testProxy(t, `${PATIENT}limits: { tunnel_idle: 10s, tunnel_lifetime: 25s }`, {
    now: clock.now,
  })
  const { client, upstream } = await openTunnel(t, proxy)
  for (const ms of [9_000, 9_000, 6_999]) {
    clock.advance(ms)
    client.write('x')
    t.equal(await upstream.until(1), 'x')
  }
  clock.advance(1)
  t.equal(await client.untilEnd(), '')
  t.equal(await upstream.untilEnd(), '')
  t.match(await proxy.event('close'), { close_reason: 'lifetime', bytes_up: 3 })
  await proxy.drain()
})

t.test('a tunnel is not subject to the limits of requests', async t => {
  const clock = new ManualClock()
  const limits = 'limits: { header_timeout: 1s, keepalive_idle: 1s, body_idle: 1s, response_timeout: 1s }'
  const proxy = await testProxy(t, PATIENT + limits, { now: clock.now })
  const { client, upstream } = await openTunnel(t, proxy)
  const other = await rawClient(t, proxy.port)
  clock.advance(60_000)
  t.equal(await other.untilEnd(), '', 'the deadlines were looked at')
  client.write('x')
  t.equal(await upstream.until(1), 'x')
  client.end()
  upstream.end()
})

t.test('a side that does not read pauses the other one, and nothing is lost', async t => {
  const proxy = await testProxy(t, PATIENT)
  await holdsUp(t, proxy, () => openTunnel(t, proxy), 64 << 20)
})
