/** Content is passed on as fast as the slower side takes it, and is never gathered. */
import t from 'tap'
import { forwarded, getBy, SENDER_NAMES } from '../kit/proxies/setups.js'
import { drain, pour, pouredDigest } from '../kit/peers/pour.js'

const TOTAL = 40 * 1024 * 1024
/** What may be under way: the buffers of the system on both connections, and little of ours. */
const MOST_UNDER_WAY = 24 * 1024 * 1024
const DIGEST = pouredDigest(TOTAL)

for (const sender of SENDER_NAMES) {
  t.test(`a client that does not read stalls the origin, by ${sender}`, async t => {
    const { origin, proxy, client } = await forwarded(t)
    client.write(getBy(sender, origin))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`)
    await client.until('\r\n\r\n')
    client.socket.pause()
    const poured = pour(peer.socket, TOTAL)
    t.ok((await poured.stalled()) < MOST_UNDER_WAY, `stalled after ${poured.taken()} bytes`)
    t.equal(await drain(client.socket, TOTAL), DIGEST, 'and nothing is lost')
    t.match(await proxy.event('close'), { close_reason: 'complete', bytes_down: TOTAL })
  })
}

t.test('an origin that does not read stalls the client', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.socket.pause()
  const poured = pour(client.socket, TOTAL)
  t.ok((await poured.stalled()) < MOST_UNDER_WAY, `stalled after ${poured.taken()} bytes`)
  t.equal(await drain(peer.socket, TOTAL), DIGEST, 'and nothing is lost')
  peer.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 201 /)
  t.match(await proxy.event('close'), { close_reason: 'complete', bytes_up: TOTAL })
})

t.test('a client that stalls and leaves ends its request at the origin', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(getBy('undici', origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  await client.until('\r\n\r\n')
  client.socket.pause()
  await pour(peer.socket, TOTAL).stalled()
  client.reset()
  await peer.closed()
  t.match(await proxy.event('close'), { status: 200, close_reason: 'client_gone' })
})
