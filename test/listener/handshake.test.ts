import t, { type Test } from 'tap'
import { Handshake } from '../../src/listener/handshake.js'
import { accepted } from '../kit/peers/accepted.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { LIMITS } from '../kit/proxies/served-connection.js'

/** A handshake over a real socket: nobody speaks TLS here, the test says what became of it. */
async function handshaking(t: Test) {
  const { client, socket } = await accepted(t)
  const clock = new ManualClock()
  const events: string[] = []
  const owner = {
    limits: LIMITS,
    now: clock.now,
    released: () => void events.push('released'),
    handshakeFailed: (address: string, code: string) => void events.push(`${address} ${code}`),
  }
  const handshake = new Handshake(
    socket,
    { address: '127.0.0.1', slot: { ...A_PLACE, release: () => void events.push('given back') } },
    owner,
  )
  const pass = (ms: number): void => {
    clock.advance(ms)
    handshake.checkDeadline(clock.now())
  }
  /** Has the client say this, and the server read it. */
  const say = async (bytes: string): Promise<void> => {
    const read = new Promise(resolve => socket.once('data', resolve))
    client.write(bytes)
    await read
  }
  const closed = new Promise(resolve => socket.once('close', resolve))
  return { client, socket, handshake, events, pass, say, closed }
}

const MS = LIMITS.headerTimeoutMs

t.test('has as long as a request head, however often the client says something', async t => {
  const { handshake, socket, events, pass, say, closed } = await handshaking(t)
  for (let i = 0; i < 3; i++) {
    pass(MS / 4)
    await say('x')
  }
  pass(MS / 4 - 1)
  t.notOk(socket.destroyed)
  pass(1)
  t.ok(socket.destroyed)
  await closed
  t.same(events, ['127.0.0.1 ERR_TLS_HANDSHAKE_TIMEOUT', 'given back', 'released'])
  handshake.failed('ECONNRESET')
  t.equal(events.length, 3, 'told once')
})

t.test('one that never said a word is ended without one', async t => {
  const { events, pass, closed } = await handshaking(t)
  pass(MS)
  await closed
  t.same(events, ['given back', 'released'])
})

t.test('a client that goes away in the middle has failed', async t => {
  const { client, socket, events, say, closed } = await handshaking(t)
  await say('x')
  socket.on('error', () => {})
  client.reset()
  await closed
  t.same(events, ['127.0.0.1 ECONNRESET', 'given back', 'released'])
})

t.test('tells the first reason alone', async t => {
  const { client, handshake, events, say, closed } = await handshaking(t)
  await say('x')
  handshake.failed('ERR_SSL_HTTP_REQUEST')
  client.end()
  await closed
  t.same(events, ['127.0.0.1 ERR_SSL_HTTP_REQUEST', 'given back', 'released'])
})

t.test('ends at a drain, and when it is told to, and neither is news', async t => {
  for (const end of ['drain', 'destroy'] as const) {
    const { handshake, client, events, say, closed } = await handshaking(t)
    await say('x')
    handshake[end]()
    await closed
    t.equal(await client.untilEnd(), '')
    t.same(events, ['given back', 'released'], end)
  }
})

t.test('once TLS stands it has nothing to do with the connection any more', async t => {
  const { handshake, socket, events, pass, say } = await handshaking(t)
  await say('x')
  handshake.succeeded()
  t.same(events, ['released'])
  pass(MS * 2)
  t.notOk(socket.destroyed)
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.destroy()
  await closed
  t.same(events, ['released'])
})
