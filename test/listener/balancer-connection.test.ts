/** A load balancer that says whose connection it passes on (The PROXY protocol, §2). */
import t, { type Test } from 'tap'
import { BalancerConnection } from '../../src/listener/balancer-connection.js'
import { accepted } from '../kit/peers/accepted.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { LIMITS } from '../kit/proxies/served-connection.js'
import { Changes, until } from '../kit/until.js'

const HEADER = 'PROXY TCP4 192.0.2.1 198.51.100.7 1 2\r\n'

async function balanced(t: Test) {
  const { client, socket } = await accepted(t, { allowHalfOpen: true })
  const clock = new ManualClock()
  const events: string[] = []
  let text = ''
  const changes = new Changes()
  const connection = new BalancerConnection(
    socket,
    { address: '10.0.0.1', slot: { ...A_PLACE, release: () => void events.push('given back') } },
    {
      limits: LIMITS,
      now: clock.now,
      released: () => void events.push('released'),
      headerFailed: (balancer, reason) => void events.push(`${balancer} ${reason}`),
    },
    ({ address: clientAddress }) => {
      events.push(`client ${clientAddress}`)
      socket.on('data', chunk => {
        text += chunk.toString('latin1')
        changes.notify()
      })
      socket.resume()
    },
  )
  const pass = (ms: number): void => {
    clock.advance(ms)
    connection.checkDeadline(clock.now())
  }
  /** Has the balancer say this, and the server read it. */
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

t.test('hands the socket over with the client’s address and what follows the header', async t => {
  const { client, events, received } = await balanced(t)
  client.write(`${HEADER}GET`)
  await received('GET')
  t.same(events, ['client 192.0.2.1', 'released'])
  client.write(' more')
  await received('GET more')
})

t.test('takes a header in pieces, and the balancer for itself where it says so', async t => {
  const { events, say, pass } = await balanced(t)
  for (const byte of 'PROXY UNKNOWN\r') await say(byte)
  t.same(events, [])
  await say('\n')
  t.same(events, ['client 10.0.0.1', 'released'])
  pass(LIMITS.headerTimeoutMs * 2)
  t.equal(events.length, 2, 'the time of the header is over')
})

t.test('a bad header closes the connection without an answer', async t => {
  const { client, events, closed } = await balanced(t)
  client.write('GET / HTTP/1.1\r\n\r\n')
  await closed
  t.equal(await client.untilEnd(), '')
  t.same(events, ['10.0.0.1 does not begin with a PROXY header', 'given back', 'released'])
})

t.test('has as long as a request head, however often something comes', async t => {
  const { events, say, pass, socket, closed } = await balanced(t)
  await say('P')
  pass(LIMITS.headerTimeoutMs - 1)
  await say('R')
  t.notOk(socket.destroyed)
  pass(1)
  await closed
  t.same(events, ['10.0.0.1 not received in time', 'given back', 'released'])
})

t.test('a connection that ends in the middle has failed, one that said nothing has not', async t => {
  const half = await balanced(t)
  await half.say('PROXY')
  half.client.end()
  await half.closed
  t.same(half.events, ['10.0.0.1 the connection ended before it was whole', 'given back', 'released'])
  const reset = await balanced(t)
  await reset.say('PROXY')
  reset.client.reset()
  await reset.closed
  t.same(reset.events, ['10.0.0.1 the connection ended before it was whole', 'given back', 'released'])
  const silent = await balanced(t)
  silent.client.end()
  await silent.closed
  t.same(silent.events, ['given back', 'released'])
})

t.test('ends at a drain, and when it is told to, and neither is news', async t => {
  for (const end of ['drain', 'destroy'] as const) {
    const { connection, say, events, closed } = await balanced(t)
    await say('PROXY')
    connection[end]()
    await closed
    t.same(events, ['given back', 'released'], end)
  }
})
