import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { settled, turns } from '../kit/peers/settled.js'
import { answerWith, LIMITS, servedConnection } from '../kit/proxies/served-connection.js'
import { until } from '../kit/until.js'

const LINGER_MS = 5000
const LINGER_BYTES = 16 * 1024 * 1024
const CLOSING = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'

t.test(
  'after its last answer a connection is read from until the client ends it (RFC 9112 §9.6)',
  async t => {
    const served = await servedConnection(t, answerWith(5))
    served.client.write(CLOSING)
    await readResponse(served.client)
    t.equal(await served.client.untilEnd(), '', 'half-closed at once')
    served.client.write('more')
    await served.arrived()
    served.pass(LINGER_MS - 1)
    t.notOk(served.socket.destroyed)
    served.client.end()
    await served.client.closed()
    t.equal(await served.client.outcome(), 'end')
    t.ok(served.isReleased)
  },
)

t.test('no request behind the last answer is served', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING + CLOSING)
  await readResponse(served.client)
  served.client.write(CLOSING)
  t.equal(await served.client.untilEnd(), '')
  await turns()
  t.equal(served.exchanges.length, 1)
})

t.test('the wait for the client is bounded in time (RFC 9112 §9.6)', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING)
  await served.client.untilEnd()
  for (let i = 0; i < 10; i++) {
    served.client.write('more')
    await served.arrived()
    t.notOk(served.socket.destroyed)
    served.pass(LINGER_MS / 10)
  }
  t.ok(served.socket.destroyed, 'whatever the client sends meanwhile')
})

t.test('the wait begins when the client has been sent everything', async t => {
  const served = await servedConnection(t, answerWith(16 * 1024 * 1024))
  served.client.socket.pause()
  served.client.write(CLOSING)
  await served.arrived()
  await settled(() => served.socket.writableLength)
  t.ok(served.socket.writableLength > 0)
  served.pass(LIMITS.bodyIdleMs - 1)
  t.notOk(served.socket.destroyed)
  served.client.socket.resume()
  t.equal((await readResponse(served.client)).body.length, 16 * 1024 * 1024)
  await served.client.untilEnd()
  await turns()
  served.pass(LINGER_MS - 1)
  t.notOk(served.socket.destroyed)
  served.pass(1)
  t.ok(served.socket.destroyed)
})

t.test('the wait is bounded in bytes', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING)
  await served.client.untilEnd()
  const before = served.socket.bytesRead
  const piece = Buffer.alloc(1 << 16)
  for (let sent = 0; sent < LINGER_BYTES; sent += piece.length) served.client.write(piece)
  const read = () => served.socket.bytesRead - before
  await until('as much to be read', () => read() >= LINGER_BYTES, { seen: read })
  t.notOk(served.socket.destroyed, 'exactly as much passes')
  served.client.write('x')
  await until('the connection to be closed', () => served.socket.destroyed)
  t.equal(read(), LINGER_BYTES + 1)
})
