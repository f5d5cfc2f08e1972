import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createServer as createTlsServer, connect as tlsConnect } from 'node:tls'
import { parseHost } from '../../src/http/authority.js'
import type { PumpLimits, PumpResult, RunningPump } from '../../src/relay/pump.js'
import { VerifiedTunnel } from '../../src/tunnel/server-name.js'
import { clientHello } from '../kit/client-hello.js'
import { ManualClock } from '../kit/manual-clock.js'
import { RawPeer } from '../kit/raw-peer.js'
import { turns } from '../kit/settled.js'
import { ALERT } from '../kit/verified-tunnels.js'

const LIMITS: PumpLimits = { idleMs: 10_000, lifetimeMs: 100_000 }
const EVENTS = ['data', 'end', 'error', 'close', 'drain', 'readable'] as const

interface Ends {
  /** The far end, spoken for by the test. */
  readonly peer: RawPeer
  /** The near end, which the tunnel gets. */
  readonly socket: Socket
}

async function ends(t: Test): Promise<Ends> {
  const server = createServer({ allowHalfOpen: true })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const accepted = new Promise<Socket>(resolve => server.once('connection', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const socket = connect({ host: '127.0.0.1', port: address.port, allowHalfOpen: true })
  await new Promise(resolve => socket.once('connect', resolve))
  const peer = new RawPeer(await accepted)
  server.close()
  t.teardown(() => {
    peer.destroy()
    socket.destroy()
  })
  return { peer, socket }
}

/** A client that speaks TLS to the proxy, by a key that both know. */
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

/** What a pump is to the tunnel; `done` ends it. */
class StubPump implements RunningPump {
  readonly calls: string[] = []
  readonly finished: Promise<PumpResult>
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
  const upstream = await ends(t)
  client.socket.pause()
  const clock = new ManualClock()
  const pump = new StubPump()
  const started: { early: string; limits: PumpLimits }[] = []
  const listeners = () =>
    [client, upstream].map(({ socket }) => EVENTS.map(event => socket.listenerCount(event)))
  const before = listeners()
  const tunnel = new VerifiedTunnel(
    { socket: client.socket, rest: setup.rest ?? Buffer.alloc(0) },
    upstream.socket,
    {
      host: parseHost('a.test'),
      limits: LIMITS,
      helloTimeoutMs: 5000,
      now: clock.now,
      startPump: (early, limits) => {
        started.push({ early: early.toString('latin1'), limits })
        return pump
      },
    },
  )
  return { client, upstream, clock, pump, started, tunnel, before, listeners }
}

const hello = clientHello('a.test')

t.test('hands everything to the pump at once, and leaves no listener behind', async t => {
  const { client, started, tunnel, pump, before, listeners, clock } = await waiting(t)
  client.peer.write(hello.subarray(0, 30))
  await turns()
  t.same(started, [])
  clock.advance(4000)
  client.peer.write(Buffer.concat([hello.subarray(30), Buffer.from('more')]))
  while (started.length === 0) await turns(1)
  const limits = { ...LIMITS, lifetimeMs: LIMITS.lifetimeMs - 4000 }
  t.same(started, [{ early: `${hello.toString('latin1')}more`, limits }])
  t.same(listeners(), before)
  const result = { bytesUp: 1, bytesDown: 2, reason: 'idle' } as const
  pump.done(result)
  t.same(await tunnel.finished, result)
})

t.test('a hello that is there from the start needs no wait', async t => {
  const { started, before, listeners } = await waiting(t, { rest: hello })
  t.same(started, [{ early: hello.toString('latin1'), limits: LIMITS }])
  t.same(listeners(), before)
})

t.test('the pump is checked and stopped in its place', async t => {
  const { tunnel, pump } = await waiting(t, { rest: hello })
  tunnel.check(1e9)
  tunnel.stop('shutdown')
  t.same(pump.calls, ['check 1000000000', 'stop shutdown'])
})

t.test('each limit ends the wait when its time has come, and not before', async t => {
  const long = { idleMs: 1e9, lifetimeMs: 1e9, helloTimeoutMs: 1e9 }
  const table: [limits: Partial<typeof long>, reason: string, fault: string | undefined][] = [
    [{ helloTimeoutMs: 100 }, 'server_name', 'sni_timeout'],
    [{ idleMs: 100 }, 'idle', undefined],
    [{ lifetimeMs: 100 }, 'lifetime', undefined],
  ]
  for (const [own, reason, fault] of table) {
    const [client, upstream] = [await ends(t), await ends(t)]
    const { helloTimeoutMs, ...limits } = { ...long, ...own }
    const tunnel = new VerifiedTunnel({ socket: client.socket, rest: Buffer.alloc(0) }, upstream.socket, {
      host: parseHost('a.test'),
      limits,
      helloTimeoutMs,
      now: () => 1000,
      startPump: () => new StubPump(),
    })
    tunnel.check(1099)
    await turns()
    t.equal(client.socket.destroyed, false)
    tunnel.check(1100)
    const refusal = fault === undefined ? {} : { refusal: { fault } }
    t.strictSame(await tunnel.finished, { bytesUp: 0, bytesDown: 0, reason, ...refusal })
    t.equal(await client.peer.untilEnd(), '')
    t.equal(await upstream.peer.untilEnd(), '')
  }
})

t.test('an upstream that is closed meanwhile ends the wait', async t => {
  const { client, upstream, tunnel } = await waiting(t)
  upstream.socket.destroy()
  t.match(await tunnel.finished, { reason: 'upstream_reset' })
  t.equal(await client.peer.untilEnd(), '')
})

t.test('a refused client is listened to until it ends, so that it can read the alert', async t => {
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

t.test('what ended it first is what is told', async t => {
  const { client, tunnel, clock } = await waiting(t)
  client.peer.write(clientHello('b.test'))
  t.equal(await client.peer.untilEnd(), ALERT)
  clock.advance(1e9)
  tunnel.check(clock.now())
  tunnel.stop('shutdown')
  t.match(await tunnel.finished, { reason: 'server_name', refusal: { fault: 'sni_mismatch' } })
})

t.test('a client whose connection to the proxy is TLS is treated alike', async t => {
  const first = await waiting(t, { client: await tlsEnds(t) })
  for (const byte of hello) first.client.peer.write(Uint8Array.of(byte))
  while (first.started.length === 0) await turns(1)
  t.match(first.started, [{ early: hello.toString('latin1') }])
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
