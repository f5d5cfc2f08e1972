import { readdirSync } from 'node:fs'
import t from 'tap'
import { createRandom } from '../kit/fakes/random.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { digest, digestOf, randomContent, readInFits, writeInPieces } from '../kit/peers/streams.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { until } from '../kit/until.js'

const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`
const MIB = 1 << 20

t.test('8 MiB are returned byte for byte to a client that has closed its side', async t => {
  const proxy = await testProxy(t, PATIENT)
  const content = randomContent(8 * MIB, createRandom(1))
  const { client, upstream } = await openTunnel(t, proxy)
  upstream.socket.pipe(upstream.socket)
  const received = digest(client.socket)
  client.socket.end(content)
  t.same(await received, digestOf(content))
  t.match(await proxy.event('close'), { bytes_up: 8 * MIB, bytes_down: 8 * MIB, close_reason: 'complete' })
  await proxy.drain()
})

t.test(
  'pieces of every size, read irregularly, arrive as they were sent, in both directions at once',
  async t => {
    const proxy = await testProxy(t, PATIENT)
    for (const seed of [2, 3, 4]) {
      const random = createRandom(seed)
      const up = randomContent(8 * MIB, random)
      const down = randomContent(8 * MIB + 1, random)
      const { client, upstream } = await openTunnel(t, proxy)
      const atUpstream = digest(upstream.socket)
      const atClient = digest(client.socket)
      readInFits(client.socket, random)
      readInFits(upstream.socket, random)
      await Promise.all([
        writeInPieces(client.socket, up, random),
        writeInPieces(upstream.socket, down, random),
      ])
      t.same(await atUpstream, digestOf(up), `seed ${seed}, up`)
      t.same(await atClient, digestOf(down), `seed ${seed}, down`)
    }
    await proxy.drain()
  },
)

t.test('many busy tunnels at once do not mix their bytes', async t => {
  const proxy = await testProxy(t, PATIENT)
  const origin = await rawOrigin(t)
  const random = createRandom(5)
  await Promise.all(
    Array.from({ length: 40 }, async () => {
      const content = randomContent(MIB / 2 + random(MIB / 2), random)
      const client = await rawClient(t, proxy.port)
      client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
      await client.until('\r\n\r\n')
      const peer = await origin.accept()
      peer.socket.pipe(peer.socket)
      const received = digest(client.socket)
      readInFits(client.socket, random)
      await writeInPieces(client.socket, content, random)
      t.same(await received, digestOf(content))
    }),
  )
  await proxy.drain()
})

t.test('a thousand tunnels closed at any moment on either side leave nothing open', async t => {
  const random = createRandom(6)
  const proxy = await testProxy(t, PATIENT)
  const origin = await rawOrigin(t)
  const descriptors = () => readdirSync('/proc/self/fd').length
  const resources = () =>
    process
      .getActiveResourcesInfo()
      .filter(name => /TCPSocketWrap|Timeout|ConnectWrap|WriteWrap|ShutdownWrap/.test(name)).length
  const openBefore = await untilStable(descriptors)
  const activeBefore = await untilStable(resources)

  const pauses = [0, 0, 1, 2, 5, 10, 30]
  /** The random actions of either end: some bytes, a pause, and some kind of end. */
  const live = async (peer: RawPeer, first: string): Promise<void> => {
    peer.write(first + 'x'.repeat(random(2) * random(70_000)))
    for (let left = random(3); left >= 0; left--) await turns(pauses[random(pauses.length)])
    const way = random(3)
    if (way === 0) peer.reset()
    else if (way === 1) peer.destroy()
    else {
      peer.end()
      await turns(pauses[random(pauses.length)])
      peer.destroy()
    }
  }
  origin.each(peer => void live(peer, ''))
  const head = `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`
  for (let batch = 0; batch < 20; batch++) {
    await Promise.all(Array.from({ length: 50 }, async () => live(await rawClient(t, proxy.port), head)))
  }
  await until('all descriptors to be closed', () => descriptors() <= openBefore, { seen: descriptors })
  t.equal(descriptors(), openBefore)
  await until('nothing to be left', () => resources() <= activeBefore, { seen: resources })
  const count = (name: string) => proxy.events.filter(({ event }) => event === name).length
  t.equal(count('close'), count('decision'))
  t.ok(count('close') > 500, `${count('close')}: all but those that were gone before anybody looked`)

  const { client, upstream } = await openTunnel(t, proxy)
  upstream.write('fine')
  t.equal(await client.until(4), 'fine')
  client.end()
  upstream.end()
  await proxy.drain()
  t.notMatch(JSON.stringify(proxy.events), 'internal')
})
