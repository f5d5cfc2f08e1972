/** Small pieces of content must not cost more than large ones: counted in chunks and in reads. */
import t from 'tap'
import { acceptedSockets } from '../kit/peers/until-read.js'
import { turns } from '../kit/peers/until-stable.js'
import { tlsClient } from '../kit/peers/tls-client.js'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { needs } from '../kit/processes/command.js'

const COUNT = 1000
/** Content of as many bytes as chunks. */
const CHUNKS = '1\r\nx\r\n'.repeat(COUNT)
const LAST = '0\r\n\r\n'
/** The number of reads in which 6000 bytes may arrive. */
const MOST_CHUNKS = 50

/** The lengths of the chunks of complete chunked content. */
function chunkLengths(wire: string): number[] {
  const lengths: number[] = []
  for (let at = 0; at < wire.length; ) {
    const end = wire.indexOf('\r\n', at)
    const length = Number.parseInt(wire.slice(at, end), 16)
    lengths.push(length)
    at = end + 2 + length + 2
  }
  return lengths
}

t.test('small chunks of a response that arrived together are sent as one (RFC 9112 §7.1)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 200 OK\r\nDate: ${DATE}\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNKS}${LAST}`)
  await client.until('\r\n\r\n')
  const lengths = chunkLengths(await client.until(LAST))
  t.equal(
    lengths.reduce((sum, length) => sum + length, 0),
    COUNT,
  )
  t.ok(lengths.length <= MOST_CHUNKS, `${lengths.length} chunks`)
})

t.test('small chunks of a request that arrived together are sent as one (RFC 9112 §7.1)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(
    `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNKS}${LAST}`,
  )
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  const lengths = chunkLengths(await peer.until(LAST))
  t.equal(
    lengths.reduce((sum, length) => sum + length, 0),
    COUNT,
  )
  t.ok(lengths.length <= MOST_CHUNKS, `${lengths.length} chunks`)
})

const GET = (authority: string) => `GET http://${authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`
/** More than may wait after a pending response, so that reading pauses. */
const MUCH = 'x'.repeat(64 * 1024 + 1)

t.test(
  'of single bytes after a pending response only a limited number is read, and they are joined',
  async t => {
    const acceptedSocket = acceptedSockets(t)
    const { origin, client } = await forwarded(t)
    const socket = await acceptedSocket(client.socket)
    client.write(GET(origin.authority))
    await (await origin.accept()).until('\r\n\r\n')
    client.write(MUCH)
    while (!socket.isPaused()) await turns(1)
    const before = socket.readableLength
    for (let i = 0; i < 200; i++) {
      client.write('x')
      await turns(2)
    }
    t.ok(socket.readableLength <= Math.max(before, 20), `${socket.readableLength} bytes`)
  },
)

t.test('also over TLS', { skip: needs('openssl') }, async t => {
  const { origin } = await forwarded(t)
  const proxy = await testProxy(t, LOOPBACK_RULES, { tls: true })
  const acceptedSocket = acceptedSockets(t)
  const client = await tlsClient(t, proxy.tlsPort, { ca: proxy.ca.cert })
  const socket = await acceptedSocket(client.socket)
  client.write(GET(origin.authority))
  await (await origin.accept()).until('\r\n\r\n')
  client.write(MUCH)
  await turns(50)
  const before = socket.bytesRead
  for (let i = 0; i < 200; i++) {
    client.write('x')
    await turns(2)
  }
  // A TLS record with one byte has 23.
  t.ok(socket.bytesRead - before < 20 * 23, `${socket.bytesRead - before} bytes`)
})
