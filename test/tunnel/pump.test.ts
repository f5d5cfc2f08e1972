import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { TunnelTimes } from '../../src/limits/client-limits.js'
import { Pump } from '../../src/tunnel/pump.js'
import { BufferedReader, ReadBuffers } from '../../src/tunnel/socket-reader.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { untilRead } from '../kit/peers/until-read.js'
import { RawPeer } from '../kit/peers/raw-peer.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { until } from '../kit/until.js'

const LIMITS: TunnelTimes = { idleMs: 10_000, lifetimeMs: 100_000 }

/** Counts the large buffers in use. */
class CountedBuffers extends ReadBuffers {
  out = 0
  taken = 0

  override takeLarge(): Buffer {
    this.out++
    this.taken++
    return super.takeLarge()
  }

  override giveLarge(buffer: Buffer): void {
    this.out--
    super.giveLarge(buffer)
  }
}

interface Ends {
  /** The far end, which the test controls. */
  readonly peer: RawPeer
  /** The near end, which the pump gets. */
  readonly socket: Socket
}

/** @param path of a Unix socket; without it, TCP */
async function ends(t: Test, reader?: BufferedReader, path?: string): Promise<Ends> {
  const server = createServer({ allowHalfOpen: true, noDelay: true })
  await new Promise<void>(resolve => {
    if (path === undefined) server.listen(0, '127.0.0.1', resolve)
    else server.listen(path, resolve)
  })
  const accepted = new Promise<Socket>(resolve => server.once('connection', resolve))
  const address = server.address()
  const target = path ?? (address !== null && typeof address === 'object' ? address.port : 0)
  const options = { allowHalfOpen: true, ...(reader === undefined ? {} : { onread: reader.onRead }) }
  const socket =
    typeof target === 'string'
      ? connect({ path: target, ...options })
      : connect({ host: '127.0.0.1', port: target, noDelay: true, ...options })
  const peer = new RawPeer(await accepted)
  if (socket.connecting) await new Promise(resolve => socket.once('connect', resolve))
  server.close()
  t.teardown(() => {
    peer.destroy()
    socket.destroy()
  })
  return { peer, socket }
}

interface Running {
  readonly pump: Pump
  readonly clock: ManualClock
  readonly buffers: CountedBuffers
  readonly client: RawPeer
  readonly upstream: RawPeer
  /** The near end of the upstream's connection. */
  readonly nearUpstream: Socket
  /** The near end of the client's connection. */
  readonly nearClient: Socket
}

interface Setup {
  /** Whether the sockets read into buffers of ours. */
  readonly buffered?: boolean
  readonly fromClient?: readonly string[]
  readonly fromUpstream?: readonly string[]
  readonly clientPath?: string
}

async function running(t: Test, setup: Setup = {}): Promise<Running> {
  const buffers = new CountedBuffers()
  const clock = new ManualClock()
  const reader = () => (setup.buffered === false ? undefined : new BufferedReader(buffers))
  const [clientReader, upstreamReader] = [reader(), reader()]
  const client = await ends(t, clientReader, setup.clientPath)
  const upstream = await ends(t, upstreamReader)
  const early = (pieces: readonly string[] = []) => pieces.map(piece => Buffer.from(piece))
  const pump = new Pump(
    { socket: client.socket, reader: clientReader, early: early(setup.fromClient) },
    { socket: upstream.socket, reader: upstreamReader, early: early(setup.fromUpstream) },
    clock.now,
  )
  const near = { nearClient: client.socket, nearUpstream: upstream.socket }
  return { pump, clock, buffers, client: client.peer, upstream: upstream.peer, ...near }
}

for (const buffered of [true, false]) {
  t.test(`passes bytes, ends and counts on, ${buffered ? 'with' : 'without'} buffers of its own`, async t => {
    const { pump, client, upstream } = await running(t, {
      buffered,
      fromClient: ['a', '', 'b'],
      fromUpstream: ['1', '2'],
    })
    client.write('c')
    upstream.write('34')
    t.equal(await upstream.until(3), 'abc')
    t.equal(await client.until(4), '1234')
    upstream.end()
    t.equal(await client.untilEnd(), '')
    client.write('d')
    t.equal(await upstream.until(1), 'd')
    client.end()
    t.equal(await upstream.untilEnd(), '')
    t.same(await pump.finished, { bytesUp: 4, bytesDown: 4, reason: 'complete' })
  })

  t.test(`passes a reset on, ${buffered ? 'with' : 'without'} buffers of its own`, async t => {
    const first = await running(t, { buffered })
    first.client.reset()
    t.equal(await first.upstream.outcome(), 'reset')
    t.match(await first.pump.finished, { reason: 'client_reset' })
    const second = await running(t, { buffered })
    second.upstream.reset()
    t.equal(await second.client.outcome(), 'reset')
    t.match(await second.pump.finished, { reason: 'upstream_reset' })
  })

  t.test(`slows a fast side down, ${buffered ? 'with' : 'without'} buffers of its own`, async t => {
    const { pump, client, upstream } = await running(t, { buffered })
    client.socket.pause()
    const total = 32 << 20
    upstream.socket.write(Buffer.alloc(total, 'x'))
    // It is a single write, which is complete only when all of it has been taken.
    t.equal(await untilStable(() => upstream.socket.writableLength), total)
    client.socket.resume()
    t.equal((await client.until(total)).length, total)
    client.end()
    upstream.end()
    t.match(await pump.finished, { bytesDown: total, reason: 'complete' })
  })
}

t.test('early bytes that a slow side does not read pause the other side', async t => {
  const buffers = new CountedBuffers()
  const client = await ends(t)
  const reader = new BufferedReader(buffers)
  const upstream = await ends(t, reader)
  upstream.peer.socket.pause()
  const early = Buffer.alloc(32 << 20)
  const pump = new Pump(
    { socket: client.socket, early: [early] },
    { socket: upstream.socket, reader, early: [] },
    () => 0,
  )
  client.peer.write(Buffer.alloc(8 << 20))
  const read = await untilStable(() => client.socket.bytesRead)
  t.ok(read <= 2 * 64 * 1024, `${read} bytes read`)
  upstream.peer.socket.resume()
  t.equal((await upstream.peer.until(40 << 20)).length, 40 << 20)
  pump.stop('shutdown')
  await pump.finished
})

t.test('passes on an end that was received before it was started, after the early bytes', async t => {
  for (const first of ['client', 'upstream'] as const) {
    const [client, upstream] = [await ends(t), await ends(t)]
    const [from, to] = first === 'client' ? [client, upstream] : [upstream, client]
    from.socket.resume()
    from.peer.end()
    await until('the end to be read', () => from.socket.readableEnded)
    const early = [Buffer.from('early')]
    const pump = new Pump(
      { socket: client.socket, early: first === 'client' ? early : [] },
      { socket: upstream.socket, early: first === 'client' ? [] : early },
      () => 0,
    )
    t.equal(await to.peer.untilEnd(), 'early')
    to.peer.write('late')
    t.equal(await from.peer.until(4), 'late')
    to.peer.end()
    t.equal(await from.peer.untilEnd(), '')
    t.match(await pump.finished, { reason: 'complete' })
  }
})

t.test('is idle if nothing was received from either side for the idle timeout', async t => {
  const { pump, clock, client, upstream } = await running(t)
  const pass = (ms: number): void => {
    clock.advance(ms)
    pump.check(clock.now(), LIMITS)
  }
  pass(LIMITS.idleMs - 1)
  client.write('x')
  await upstream.until(1)
  pass(LIMITS.idleMs - 1)
  upstream.write('x')
  await client.until(1)
  pass(LIMITS.idleMs - 1)
  await turns()
  t.equal(client.socket.readyState, 'open')
  pass(1)
  t.same(await pump.finished, { bytesUp: 1, bytesDown: 1, reason: 'idle' })
})

t.test('is not idle while a slow side reads something', async t => {
  // The pump has all bytes from the start; nothing arrives from the other side meanwhile.
  const { pump, clock, client } = await running(t, { fromUpstream: ['x'.repeat(32 << 20)] })
  client.socket.pause()
  await untilStable(() => client.socket.bytesRead)
  clock.advance(LIMITS.idleMs - 1)
  client.socket.resume()
  await client.until(32 << 20)
  await turns()
  clock.advance(LIMITS.idleMs - 1)
  pump.check(clock.now(), LIMITS)
  await turns()
  t.equal(client.socket.readyState, 'open')
  clock.advance(1)
  pump.check(clock.now(), LIMITS)
  t.match(await pump.finished, { reason: 'idle' })
})

t.test('has a maximum lifetime, busy or not', async t => {
  const { pump, clock, client, upstream } = await running(t)
  clock.advance(LIMITS.lifetimeMs - 1)
  client.write('x')
  await upstream.until(1)
  pump.check(clock.now(), LIMITS)
  await turns()
  t.equal(client.socket.readyState, 'open')
  clock.advance(1)
  pump.check(clock.now(), LIMITS)
  t.match(await pump.finished, { reason: 'lifetime' })
  t.equal(await client.untilEnd(), '')
  t.equal(await upstream.untilEnd(), '')
})

t.test('can be stopped from outside', async t => {
  const { pump, client, upstream } = await running(t)
  pump.stop('shutdown')
  t.match(await pump.finished, { reason: 'shutdown' })
  t.equal(await client.untilEnd(), '')
  t.equal(await upstream.untilEnd(), '')
})

t.test('closes a side that cannot be reset', async t => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-pump-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const { pump, client, upstream } = await running(t, { clientPath: join(directory, 'socket') })
  upstream.reset()
  t.match(await pump.finished, { reason: 'upstream_reset' })
  await client.untilEnd()
})

t.test('a busy tunnel borrows large buffers and gives them back when it turns quiet', async t => {
  const { pump, buffers, client, upstream } = await running(t)
  client.socket.pause()
  upstream.write(Buffer.alloc(8 << 20))
  upstream.write('the end')
  await untilStable(() => upstream.socket.writableLength)
  t.equal(buffers.out, 1)
  client.socket.resume()
  await client.until((8 << 20) + 7)
  upstream.write('quiet')
  await client.until(5)
  t.equal(buffers.out, 0, 'while it is open')
  client.write(Buffer.alloc(8 << 20))
  await upstream.until(8 << 20)
  client.end()
  upstream.end()
  await pump.finished
  t.ok(buffers.taken >= 2)
  t.equal(buffers.out, 0)
})

t.test('returns its buffers when it is stopped', async t => {
  const { pump, buffers, client, upstream } = await running(t)
  client.socket.pause()
  upstream.write(Buffer.alloc(16 << 20))
  await untilStable(() => upstream.socket.writableLength)
  t.equal(buffers.out, 1)
  client.reset()
  t.match(await pump.finished, { reason: 'client_reset' })
  t.equal(buffers.out, 0)
})

for (const buffered of [true, false]) {
  const how = `${buffered ? 'with' : 'without'} buffers of its own`
  t.test(`joins single bytes for a side that does not read, ${how}`, async t => {
    const { pump, client, upstream, nearClient, nearUpstream } = await running(t, { buffered })
    // It takes nothing while it is corked.
    nearUpstream.cork()
    let writes = 0
    const write = nearUpstream.write.bind(nearUpstream) as (...args: unknown[]) => boolean
    t.intercept(nearUpstream, 'write', {
      value: (...args: unknown[]) => {
        writes += 1
        return write(...args)
      },
    })
    let sent = ''
    for (let i = 0; i < 500; i++) {
      const piece = String.fromCharCode(97 + (i % 26))
      sent += piece
      client.write(piece)
      await untilRead(client.socket, nearClient)
    }
    t.equal(pump.bytesUp, 500)
    t.ok(writes <= 2, `${writes} writes`)
    client.end()
    t.equal(await upstream.untilEnd(), sent, 'in order, and before the end')
    upstream.end()
    t.match(await pump.finished, { bytesUp: 500, reason: 'complete' })
  })
}
