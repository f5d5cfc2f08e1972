/** What a connection begins with: a TLS handshake, or the PROXY header of a load balancer. */
import t, { type Test } from 'tap'
import { Opening, PROXY_HEADER, readProxyHeader, TLS_HANDSHAKE } from '../../src/listener/opening.js'
import { connectedPair } from '../kit/peers/connected-pair.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { LIMITS } from '../kit/proxies/served-connection.js'
import { Changes, until } from '../kit/until.js'

const HEADER = 'PROXY TCP4 192.0.2.1 198.51.100.7 1 2\r\n'

/** A handshake on a real socket without TLS: the test decides its result. */
async function handshaking(t: Test) {
  const { client, socket } = await connectedPair(t)
  const clock = new ManualClock()
  const events: string[] = []
  const handshake = new Opening(
    socket,
    { address: '127.0.0.1', slot: { ...A_PLACE, release: () => void events.push('given back') } },
    TLS_HANDSHAKE,
    { limits: LIMITS, now: clock.now },
    {
      released: () => void events.push('released'),
      failed: (address, code) => void events.push(`${address} ${code}`),
    },
  )
  const pass = (ms: number): void => {
    clock.advance(ms)
    handshake.checkDeadline(clock.now())
  }
  /** Makes the client send this, and the server read it. */
  const say = async (bytes: string): Promise<void> => {
    const read = new Promise(resolve => socket.once('data', resolve))
    client.write(bytes)
    await read
  }
  const closed = new Promise(resolve => socket.once('close', resolve))
  return { client, socket, handshake, events, pass, say, closed }
}

const MS = LIMITS.headerTimeoutMs

t.test(
  'a handshake has as much time as a request head, however often the client sends something',
  async t => {
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
    t.equal(events.length, 3, 'reported once')
  },
)

t.test('a client that has not begun its handshake is closed without a report', async t => {
  const { events, pass, closed } = await handshaking(t)
  pass(MS)
  await closed
  t.same(events, ['given back', 'released'])
})

t.test('a client that disconnects during its handshake has failed', async t => {
  const { client, socket, events, say, closed } = await handshaking(t)
  await say('x')
  socket.on('error', () => {})
  client.reset()
  await closed
  t.same(events, ['127.0.0.1 ECONNRESET', 'given back', 'released'])
})

t.test('only the first reason of a handshake is reported', async t => {
  const { client, handshake, events, say, closed } = await handshaking(t)
  await say('x')
  handshake.failed('ERR_SSL_HTTP_REQUEST')
  client.end()
  await closed
  t.same(events, ['127.0.0.1 ERR_SSL_HTTP_REQUEST', 'given back', 'released'])
})

t.test('a handshake is ended by a drain and by destroy, and neither is reported', async t => {
  for (const end of ['drain', 'destroy'] as const) {
    const { handshake, client, events, say, closed } = await handshaking(t)
    await say('x')
    handshake[end]()
    await closed
    t.equal(await client.untilEnd(), '')
    t.same(events, ['given back', 'released'], end)
  }
})

t.test('once TLS is established the opening does not affect the connection', async t => {
  const { handshake, socket, events, pass, say } = await handshaking(t)
  await say('x')
  handshake.succeed()
  t.same(events, ['released'])
  pass(MS * 2)
  t.notOk(socket.destroyed)
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.destroy()
  await closed
  t.same(events, ['released'])
})

/** A load balancer that sends a PROXY header (The PROXY protocol, §2). */
async function balanced(t: Test) {
  const { client, socket } = await connectedPair(t, { allowHalfOpen: true })
  const clock = new ManualClock()
  const events: string[] = []
  let text = ''
  const changes = new Changes()
  const connection = new Opening(
    socket,
    { address: '10.0.0.1', slot: { ...A_PLACE, release: () => void events.push('given back') } },
    PROXY_HEADER,
    { limits: LIMITS, now: clock.now },
    {
      released: () => void events.push('released'),
      failed: (balancer, reason) => void events.push(`${balancer} ${reason}`),
    },
  )
  readProxyHeader(connection, ({ address: clientAddress }) => {
    events.push(`client ${clientAddress}`)
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      changes.notify()
    })
    socket.resume()
  })
  const pass = (ms: number): void => {
    clock.advance(ms)
    connection.checkDeadline(clock.now())
  }
  /** Makes the balancer send this, and the server read it. */
  const say = async (bytes: string): Promise<void> => {
    const read = new Promise(resolve => socket.once('data', resolve))
    client.write(bytes)
    await read
  }
  const received = async (expected: string): Promise<void> => {
    const arrived = () => text.length >= expected.length
    await until(JSON.stringify(expected), arrived, { changes, seen: () => text })
    t.equal(text, expected)
  }
  const closed = new Promise(resolve => socket.once('close', resolve))
  return { client, socket, connection, events, pass, say, received, closed }
}

t.test('passes on the socket, with the address of the client and the bytes after the header', async t => {
  const { client, events, received } = await balanced(t)
  client.write(`${HEADER}GET`)
  await received('GET')
  t.same(events, ['client 192.0.2.1', 'released'])
  client.write(' more')
  await received('GET more')
})

t.test('accepts a header in pieces, and the balancer as the client where it says so', async t => {
  const { events, say, pass } = await balanced(t)
  for (const byte of 'PROXY UNKNOWN\r') await say(byte)
  t.same(events, [])
  await say('\n')
  t.same(events, ['client 10.0.0.1', 'released'])
  pass(LIMITS.headerTimeoutMs * 2)
  t.equal(events.length, 2, 'the time of the header is over')
})

t.test('an invalid header closes the connection without a response', async t => {
  const { client, events, closed } = await balanced(t)
  client.write('GET / HTTP/1.1\r\n\r\n')
  await closed
  t.equal(await client.untilEnd(), '')
  t.same(events, ['10.0.0.1 does not begin with a PROXY header', 'given back', 'released'])
})

t.test('a header has as much time as a request head, however often something arrives', async t => {
  const { events, say, pass, socket, closed } = await balanced(t)
  await say('P')
  pass(LIMITS.headerTimeoutMs - 1)
  await say('R')
  t.notOk(socket.destroyed)
  pass(1)
  await closed
  t.same(events, ['10.0.0.1 not received in time', 'given back', 'released'])
})

t.test('a connection that ends within the header has failed, one that sent nothing has not', async t => {
  const half = await balanced(t)
  await half.say('PROXY')
  half.client.end()
  await half.closed
  t.same(half.events, ['10.0.0.1 the connection was closed before it was complete', 'given back', 'released'])
  const reset = await balanced(t)
  await reset.say('PROXY')
  reset.client.reset()
  await reset.closed
  t.same(reset.events, [
    '10.0.0.1 the connection was closed before it was complete',
    'given back',
    'released',
  ])
  const silent = await balanced(t)
  silent.client.end()
  await silent.closed
  t.same(silent.events, ['given back', 'released'])
})

t.test(
  'a connection that waits for its header is ended by a drain and by destroy, and neither is reported',
  async t => {
    for (const end of ['drain', 'destroy'] as const) {
      const { connection, say, events, closed } = await balanced(t)
      await say('PROXY')
      connection[end]()
      await closed
      t.same(events, ['given back', 'released'], end)
    }
  },
)

t.test('a header that has not begun is not reported at its deadline', async t => {
  const { events, pass, closed } = await balanced(t)
  pass(LIMITS.headerTimeoutMs)
  await closed
  t.same(events, ['given back', 'released'])
})
