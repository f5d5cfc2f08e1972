import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createServer as createTlsServer, connect as tlsConnect } from 'node:tls'
import { parseHost } from '../../src/http/authority.js'
import type { TunnelTimes } from '../../src/limits/client-limits.js'
import type { PumpResult, RunningPump } from '../../src/tunnel/pump.js'
import { BufferedReader, ReadBuffers } from '../../src/tunnel/socket-reader.js'
import { VerifiedTunnel } from '../../src/tunnel/server-name.js'
import { untilRead } from '../kit/peers/until-read.js'
import { clientHello } from '../kit/peers/client-hello.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { RawPeer } from '../kit/peers/raw-peer.js'
import { CHANGE_CIPHER_SPEC, earlyData, RETRY_REQUEST, SERVER_HELLO } from '../kit/peers/server-hello.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { ALERT } from '../kit/proxies/setups.js'
import { until } from '../kit/until.js'

const LIMITS: TunnelTimes = { idleMs: 10_000, lifetimeMs: 100_000 }
const EVENTS = ['data', 'end', 'error', 'close', 'drain', 'readable'] as const

interface Ends {
  /** The far end, which the test controls. */
  readonly peer: RawPeer
  /** The near end, which the tunnel gets. */
  readonly socket: Socket
}

async function ends(t: Test, reader?: BufferedReader): Promise<Ends> {
  const server = createServer({ allowHalfOpen: true })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const accepted = new Promise<Socket>(resolve => server.once('connection', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const onread = reader === undefined ? {} : { onread: reader.onRead }
  const socket = connect({ host: '127.0.0.1', port: address.port, allowHalfOpen: true, ...onread })
  await new Promise(resolve => socket.once('connect', resolve))
  const peer = new RawPeer(await accepted)
  server.close()
  t.teardown(() => {
    peer.destroy()
    socket.destroy()
  })
  return { peer, socket }
}

/** A client with TLS to the proxy, by a pre-shared key. */
async function tlsEnds(t: Test): Promise<Ends> {
  const key = Buffer.alloc(32, 7)
  const shared = { ciphers: 'PSK', maxVersion: 'TLSv1.2', allowHalfOpen: true } as const
  const server = createTlsServer({ ...shared, pskCallback: () => key })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const accepted = new Promise<Socket>(resolve => server.once('secureConnection', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const pskCallback = () => ({ identity: 'client', psk: key })
  const client = tlsConnect({
    ...shared,
    host: '127.0.0.1',
    port: address.port,
    pskCallback,
    checkServerIdentity: () => undefined,
  })
  const peer = new RawPeer(client)
  const socket = await accepted
  server.close()
  t.teardown(() => {
    peer.destroy()
    socket.destroy()
  })
  return { peer, socket }
}

const latin1 = (pieces: readonly Buffer[]) => Buffer.concat(pieces).toString('latin1')

/** A fake pump; `done` finishes it. */
class StubPump implements RunningPump {
  readonly calls: string[] = []
  readonly bytes = 5
  readonly finished: Promise<PumpResult>
  bytesUp = 0
  bytesDown = 0
  done: (result: PumpResult) => void = () => {}

  constructor() {
    this.finished = new Promise(resolve => {
      this.done = resolve
    })
  }

  check(now: number): void {
    this.calls.push(`check ${now}`)
  }

  stop(reason: string): void {
    this.calls.push(`stop ${reason}`)
  }
}

interface Setup {
  readonly rest?: Buffer
  readonly client?: Ends
}

async function waiting(t: Test, setup: Setup = {}) {
  const client = setup.client ?? (await ends(t))
  const reader = new BufferedReader(new ReadBuffers())
  const upstream = await ends(t, reader)
  client.socket.pause()
  const clock = new ManualClock()
  const pump = new StubPump()
  const started: { up: string; down: string }[] = []
  const listeners = () =>
    [client, upstream].map(({ socket }) => EVENTS.map(event => socket.listenerCount(event)))
  const before = listeners()
  const tunnel = new VerifiedTunnel(
    { socket: client.socket, rest: setup.rest ?? Buffer.alloc(0) },
    upstream.socket,
    reader,
    {
      host: parseHost('a.test'),
      headerTimeoutMs: 5000,
      now: clock.now,
      startPump: (fromClient, fromUpstream) => {
        started.push({ up: latin1([fromClient]), down: latin1([fromUpstream]) })
        return pump
      },
    },
  )
  return { client, upstream, clock, pump, started, tunnel, before, listeners }
}

const hello = clientHello('a.test')
const HELLO = hello.toString('latin1')
const ANSWER = SERVER_HELLO.toString('latin1')
const RETRY = RETRY_REQUEST.toString('latin1')

t.test('passes the ClientHello on, and hands what follows, and the answer, to the pump', async t => {
  const { client, upstream, started, tunnel, pump, before, listeners, clock } = await waiting(t)
  client.peer.write(hello.subarray(0, 30))
  await untilRead(client.peer.socket, client.socket)
  t.equal(upstream.peer.received, '')
  clock.advance(4000)
  client.peer.write(Buffer.concat([hello.subarray(30), Buffer.from('more')]))
  t.equal(await upstream.peer.until(hello.length), HELLO)
  client.peer.write(' and more')
  await untilRead(client.peer.socket, client.socket)
  t.same([started, upstream.peer.received], [[], ''], 'which waits for the answer')
  upstream.peer.write(SERVER_HELLO)
  await until('the pump to start', () => started.length > 0)
  t.same(started, [{ up: 'more and more', down: ANSWER }])
  t.same(listeners(), before)
  const result = { bytesUp: 1, bytesDown: 2, reason: 'idle' } as const
  pump.done(result)
  t.same(await tunnel.finished, { ...result, bytesUp: 1 + hello.length })
})

t.test('does not wait for a ClientHello that is available from the start', async t => {
  const { upstream, started, before, listeners } = await waiting(t, { rest: hello })
  t.equal(await upstream.peer.until(hello.length), HELLO)
  upstream.peer.write(SERVER_HELLO)
  await until('the pump to start', () => started.length > 0)
  t.same(started, [{ up: '', down: ANSWER }])
  t.same(listeners(), before)
})

t.test('checks and stops its pump', async t => {
  const { upstream, started, tunnel, pump } = await waiting(t, { rest: hello })
  upstream.peer.write('x')
  await until('the pump to start', () => started.length > 0)
  tunnel.check(99_999, LIMITS)
  tunnel.stop('shutdown')
  t.same(pump.calls, ['check 99999', 'stop shutdown'])
})

t.test('its life begins with the tunnel, and not with the pump', async t => {
  const { client, upstream, started, tunnel, pump, clock } = await waiting(t)
  const end = clock.now() + LIMITS.lifetimeMs
  clock.advance(4000)
  client.peer.write(hello)
  await upstream.peer.until(hello.length)
  upstream.peer.write(SERVER_HELLO)
  await until('the pump to start', () => started.length > 0)
  tunnel.check(end - 1, LIMITS)
  tunnel.check(end, LIMITS)
  t.same(pump.calls, [`check ${end - 1}`, 'stop lifetime'])
})

t.test('checks a second ClientHello like the first (RFC 8446 §4.1.4)', async t => {
  const { client, upstream, started, tunnel, pump, before, listeners } = await waiting(t, { rest: hello })
  client.peer.write(earlyData(100))
  for (const byte of RETRY_REQUEST.subarray(0, -1)) upstream.peer.write(Uint8Array.of(byte))
  await turns()
  t.same([client.peer.received, started], ['', []])
  upstream.peer.write(Buffer.concat([RETRY_REQUEST.subarray(-1), CHANGE_CIPHER_SPEC]))
  t.equal(await client.peer.until(RETRY_REQUEST.length), RETRY)
  const second = [CHANGE_CIPHER_SPEC, clientHello('A.test'), Buffer.from('behind')]
  client.peer.write(latin1(second))
  await until('the pump to start', () => started.length > 0)
  t.match(started, [{ up: latin1([earlyData(100), ...second]), down: '' }])
  t.equal(await upstream.peer.until(hello.length), HELLO)
  t.equal(upstream.peer.received, '')
  t.same(listeners(), before)
  pump.done({ bytesUp: 1, bytesDown: 2, reason: 'complete' })
  const { bytesUp, bytesDown } = await tunnel.finished
  t.equal(bytesUp, 1 + hello.length)
  const behind = bytesDown - 2 - RETRY.length
  t.ok(behind === 0 || behind === CHANGE_CIPHER_SPEC.length, 'what came along with the request, or not yet')
})

t.test('checks a second ClientHello that arrives before it is requested', async t => {
  for (const [name, passed] of [
    ['a.test', true],
    ['b.test', false],
  ] as const) {
    const second = clientHello(name)
    const { client, upstream, started, tunnel } = await waiting(t, { rest: Buffer.concat([hello, second]) })
    client.peer.end()
    await turns()
    upstream.peer.write(RETRY_REQUEST)
    if (passed) {
      await until('the pump to start', () => started.length > 0)
      t.match(started, [{ up: second.toString('latin1'), down: '' }])
    } else {
      t.equal(await client.peer.untilEnd(), RETRY + ALERT)
      t.match(await tunnel.finished, { refusal: { fault: 'sni_mismatch', sent: name } })
      t.equal(await upstream.peer.untilEnd(), HELLO)
    }
  }
})

t.test('refuses a client that half-closes after its first ClientHello if a second is requested', async t => {
  const { client, upstream, tunnel } = await waiting(t, { rest: hello })
  client.peer.write(CHANGE_CIPHER_SPEC)
  client.peer.end()
  await turns()
  upstream.peer.write(RETRY_REQUEST)
  t.equal(await client.peer.untilEnd(), RETRY + ALERT)
  t.match(await tunnel.finished, { refusal: { fault: 'sni_missing' } })
})

t.test('leaves an end of either side before the answer to the pump', async t => {
  const first = await waiting(t, { rest: hello })
  first.client.peer.end()
  await until('the pump to start', () => first.started.length > 0)
  t.match(first.started, [{ up: '', down: '' }])
  t.same(first.listeners(), first.before)
  const second = await waiting(t, { rest: Buffer.concat([hello, Buffer.from('x')]) })
  second.upstream.peer.write(RETRY_REQUEST.subarray(0, 20))
  await turns()
  second.upstream.peer.end()
  await until('the pump to start', () => second.started.length > 0)
  t.match(second.started, [{ up: 'x', down: RETRY.slice(0, 20) }])
  t.same(second.listeners(), second.before)
})

t.test('reads at most 64 KiB from a client while the answer is awaited', async t => {
  const { client, upstream, started } = await waiting(t, { rest: hello })
  client.peer.write(Buffer.alloc(32 << 20, 'x'))
  await until('the client to be paused', () => client.socket.isPaused())
  await untilStable(() => client.socket.bytesRead)
  t.ok(client.socket.bytesRead <= 1 << 20, `${client.socket.bytesRead} bytes`)
  upstream.peer.write(SERVER_HELLO)
  await until('the pump to start', () => started.length > 0)
  const held = started[0]?.up.length ?? 0
  t.ok(held > 64 * 1024 && held <= 2 * 64 * 1024, `${held} bytes`)
})

t.test('does not read from the origin while the second ClientHello is awaited', async t => {
  const { client, upstream } = await waiting(t, { rest: hello })
  upstream.peer.write(RETRY_REQUEST)
  await client.peer.until(RETRY.length)
  upstream.peer.write(Buffer.alloc(32 << 20, 'y'))
  await untilStable(() => upstream.socket.bytesRead)
  t.equal(upstream.socket.bytesRead, RETRY.length)
})

t.test('resumes a paused client for its second ClientHello', async t => {
  const { client, upstream, tunnel } = await waiting(t, { rest: hello })
  const early = earlyData(2 ** 14 - 5)
  client.peer.write(Buffer.concat([early, early, early, early, clientHello('b.test').subarray(0, 30)]))
  await until('the client to be paused', () => client.socket.isPaused())
  await untilStable(() => client.socket.bytesRead)
  upstream.peer.write(RETRY_REQUEST)
  t.equal(await client.peer.until(RETRY.length), RETRY)
  client.peer.write(clientHello('b.test').subarray(30))
  t.equal(await client.peer.untilEnd(), ALERT)
  client.peer.end()
  t.match(await tunnel.finished, { refusal: { fault: 'sni_mismatch', sent: 'b.test' } })
})

t.test(
  'the timeout for a second ClientHello starts with its request, and there is none for the answer',
  async t => {
    const { client, upstream, clock, tunnel } = await waiting(t, { rest: hello })
    await upstream.peer.until(hello.length)
    clock.advance(9_999)
    tunnel.check(clock.now(), LIMITS)
    upstream.peer.write(RETRY_REQUEST)
    await client.peer.until(RETRY.length)
    clock.advance(4_999)
    tunnel.check(clock.now(), LIMITS)
    await turns()
    t.equal(client.socket.destroyed, false)
    clock.advance(1)
    tunnel.check(clock.now(), LIMITS)
    t.strictSame(await tunnel.finished, {
      bytesUp: hello.length,
      bytesDown: RETRY.length,
      reason: 'server_name',
      refusal: { fault: 'sni_timeout' },
    })
    const idle = await waiting(t, { rest: hello })
    idle.clock.advance(10_000)
    idle.tunnel.check(idle.clock.now(), LIMITS)
    t.strictSame(await idle.tunnel.finished, { bytesUp: hello.length, bytesDown: 0, reason: 'idle' })
  },
)

t.test('each timeout ends the wait when it expires, and not before', async t => {
  const long = { idleMs: 1e9, lifetimeMs: 1e9, headerTimeoutMs: 1e9 }
  const table: [limits: Partial<typeof long>, reason: string, fault: string | undefined][] = [
    [{ headerTimeoutMs: 100 }, 'server_name', 'sni_timeout'],
    [{ idleMs: 100 }, 'idle', undefined],
    [{ lifetimeMs: 100 }, 'lifetime', undefined],
  ]
  for (const [own, reason, fault] of table) {
    const [client, upstream] = [await ends(t), await ends(t)]
    const { headerTimeoutMs, ...limits } = { ...long, ...own }
    const reader = new BufferedReader(new ReadBuffers())
    const tunnel = new VerifiedTunnel(
      { socket: client.socket, rest: Buffer.alloc(0) },
      upstream.socket,
      reader,
      {
        host: parseHost('a.test'),
        headerTimeoutMs,
        now: () => 1000,
        startPump: () => new StubPump(),
      },
    )
    tunnel.check(1099, limits)
    await turns()
    t.equal(client.socket.destroyed, false)
    tunnel.check(1100, limits)
    const refusal = fault === undefined ? {} : { refusal: { fault } }
    t.strictSame(await tunnel.finished, { bytesUp: 0, bytesDown: 0, reason, ...refusal })
    t.equal(await client.peer.untilEnd(), '')
    t.equal(await upstream.peer.untilEnd(), '')
  }
})

t.test('an upstream that is closed ends the wait', async t => {
  const { client, upstream, tunnel } = await waiting(t)
  upstream.socket.destroy()
  t.match(await tunnel.finished, { reason: 'upstream_reset' })
  t.equal(await client.peer.untilEnd(), '')
})

t.test('reads from a refused client until it closes, so that it can read the alert', async t => {
  const { client, upstream, tunnel } = await waiting(t)
  client.peer.write(clientHello('b.test'))
  t.equal(await client.peer.untilEnd(), ALERT)
  t.equal(await upstream.peer.untilEnd(), '', 'the origin has nothing to wait for')
  for (const bytes of ['x', hello, Buffer.alloc(100_000)]) {
    client.peer.write(bytes)
    await turns()
    t.equal(client.socket.destroyed, false)
  }
  client.peer.end()
  const refusal = { fault: 'sni_mismatch', sent: 'b.test' }
  t.strictSame(await tunnel.finished, { bytesUp: 0, bytesDown: 0, reason: 'server_name', refusal })
  t.equal(await client.peer.outcome(), 'end')
})

t.test('reports the first reason to end', async t => {
  const { client, tunnel, clock } = await waiting(t)
  client.peer.write(clientHello('b.test'))
  t.equal(await client.peer.untilEnd(), ALERT)
  clock.advance(1e9)
  tunnel.check(clock.now(), LIMITS)
  tunnel.stop('shutdown')
  t.match(await tunnel.finished, { reason: 'server_name', refusal: { fault: 'sni_mismatch' } })
})

t.test('treats a client that is connected with TLS in the same way', async t => {
  const first = await waiting(t, { client: await tlsEnds(t) })
  for (const byte of hello) first.client.peer.write(Uint8Array.of(byte))
  t.equal(await first.upstream.peer.until(hello.length), HELLO)
  first.upstream.peer.write(SERVER_HELLO)
  await until('the pump to start', () => first.started.length > 0)
  t.match(first.started, [{ up: '', down: ANSWER }])
  t.same(first.listeners(), first.before)

  const second = await waiting(t, { client: await tlsEnds(t) })
  second.client.peer.write(clientHello('b.test'))
  t.equal(await second.client.peer.untilEnd(), ALERT)
  second.client.peer.end()
  t.match(await second.tunnel.finished, { reason: 'server_name' })
  t.equal(await second.upstream.peer.untilEnd(), '')

  const third = await waiting(t, { client: await tlsEnds(t) })
  third.client.peer.write(hello.subarray(0, 30))
  third.client.peer.end()
  t.equal(await third.client.peer.untilEnd(), ALERT)
  t.match(await third.tunnel.finished, { refusal: { fault: 'sni_missing' } })
})
